#!/usr/bin/env bash
# One pull request holds what was measured last. Its branch is made anew from the commit at hand, unless somebody has worked on it since.
# A pull request of the workflow's own token starts no checks, so they are dispatched. usage: propose.sh SUMMARY.md
set -euo pipefail
summary=$1
branch=results/measured
bot="41898282+github-actions[bot]@users.noreply.github.com"

if [ -z "$(git status --porcelain -- examples/results)" ]; then
  echo "Nothing new to propose."
  exit 0
fi
gh auth setup-git
if git fetch --quiet --depth 1 origin "$branch" 2>/dev/null && [ "$(git log -1 --format=%ae FETCH_HEAD)" != "$bot" ]; then
  echo "::warning::Somebody has worked on $branch: it is left alone. Merge or close its pull request; the artifact holds the new results."
  exit 0
fi
git switch --quiet --force-create "$branch"
git add -- examples/results
cards=$(git diff --cached --name-only | cut -d/ -f3 | sort -u | paste -sd, -)
git -c user.name="github-actions[bot]" -c user.email="$bot" commit --quiet --message "Measured again: $cards"
git push --quiet --force origin "HEAD:refs/heads/$branch" || {
  echo "::warning::This repository lets Actions push no branch: the artifact holds the new results, and the site is published with them all the same."
  exit 0
}

head -c 60000 "$summary" > "$summary.body"
number=$(gh pr list --head "$branch" --base main --state open --json number --jq '.[].number')
if [ -n "$number" ]; then
  gh pr edit "$number" --title "Measured again: $cards" --body-file "$summary.body"
else
  gh pr create --head "$branch" --base main --title "Measured again: $cards" --body-file "$summary.body"
fi || echo "::warning::This repository lets Actions open no pull request (Settings, Actions, General, Workflow permissions): open one from $branch by hand. The site is published with the new results all the same."
gh workflow run check.yml --ref "$branch"
