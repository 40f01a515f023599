# Each target makes what it needs. `make help` lists them. POSIX shell, GNU make; Linux, macOS, WSL.
PYTHON ?= python3
PORT ?= 8000
OUT ?= measured
FROM ?= measured
WORKERS ?= 3
LIMIT ?= 900
DIR ?= site
BIN = .venv/bin
OLDEST = 3.11.5
export NO_MKDOCS_2_WARNING = 1
export PYTHONUTF8 = 1
stop = { echo "$(1)" >&2; exit 1; }

.PHONY: help serve site quick test labs check-site mutate edits growth audit numbers measure compare check-results fetch-results take-results summary outputs notebooks notebooks-run offline propose-results publish-now push-notebooks verify-vllm lock clean browser tools language

##@ Every day

help:       ## this list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

serve: .venv/site.stamp node_modules/.stamp   ## the whole site on 127.0.0.1:8000, reloaded on every save (PORT=)
	@$(BIN)/python -c "import socket; socket.socket().connect_ex(('127.0.0.1', $(PORT))) and exit(0); exit(1)" \
	  || $(call stop,Port $(PORT) is taken. Stop what listens there or choose another: make serve PORT=8001)
	@echo "Building; then open http://127.0.0.1:$(PORT)/ (Ctrl+C stops)"
	@exec $(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

site: .venv/site.stamp node_modules/.stamp    ## strict build into site/ (SITE_URL= where it will be published, OFFLINE= an archive to publish with it)
	@[ -n "$(SITE_URL)" ] || echo "SITE_URL is unset: the site works anywhere, without canonical links, sitemap and copyable addresses."
	@SITE_URL="$(SITE_URL)" OFFLINE="$(OFFLINE)" $(BIN)/mkdocs build --strict

# What a changed sentence, number or placeholder can break: the strict build, what the built pages hold, and the tests that read pages. No browser.
QUICK = $(addprefix tests/test_,$(addsuffix .py,arithmetic calculator citations claims drawings fences glossary interview notebooks parity placeholders places policy quiz run search settings site tex theatre typography hard_places vllm_page words)) docs/en docs/zh
quick: .venv/test.stamp node_modules/.stamp   ## what a changed sentence can break, in a minute
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --quick $(QUICK) $(ARGS)

test: .venv/test.stamp node_modules/.stamp browser   ## everything, three tests at a time, for many wait (WORKERS=, ARGS= for pytest)
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 20 $(ARGS)

labs:       ## measure on this machine's GPU into examples/results (LAB=name, PYTHON= one with torch)
	@$(PYTHON) examples/run.py $(LAB)

##@ Look closer

check-site: .venv/site.stamp                  ## what is wrong in a built site (DIR=site, SITE_URL= if it was built for one)
	@$(BIN)/python tools/check_site.py $(if $(SITE_URL),--url "$(SITE_URL)") "$(DIR)"

mutate: .venv/test.stamp node_modules/.stamp browser ## break each promise on purpose and see its check turn red (ARGS= names; --list)
	@$(BIN)/python tools/mutations.py $(ARGS)

edits: .venv/test.stamp node_modules/.stamp browser  ## make harmless edits and see that all stays green (ARGS= names; --list)
	@$(BIN)/python tools/edits.py $(ARGS)

growth: .venv/test.stamp node_modules/.stamp  ## what a build costs with 10, 60 and 500 more pages (PAGES="10 20")
	@$(BIN)/python tools/growth.py $(PAGES)

audit: browser node_modules/.stamp tools/lighthouse/node_modules/.stamp   ## Lighthouse's verdict on some pages, on a quiet machine (PAGES="en/lesson/ …")
	@SITE_URL= $(BIN)/mkdocs build --strict --site-dir .cache/audit
	@$(BIN)/python tools/lighthouse/audit.py .cache/audit $(PAGES)

# Each step runs, whatever the one before it found; the exit status says whether all held.
numbers: .venv/test.stamp node_modules/.stamp browser tools/lighthouse/node_modules/.stamp   ## every number that is held, as it is now (a quiet machine, most of an hour)
	@status=0; \
	$(MAKE) --no-print-directory site check-site DIR=site || status=1; \
	$(BIN)/python -m pytest -q tests/test_budgets.py tests/test_search.py || status=1; \
	for step in growth audit mutate; do $(MAKE) --no-print-directory $$step || status=1; done; exit $$status

##@ Measure and compare

# Each lab in a process of its own, so that an error of the GPU ends one lab and not those behind it.
measure:    ## measure as the GPU runner does: a process each (LIMIT= seconds, OUT= folder)
	@mkdir -p "$(OUT)" && : > "$(OUT)/outcome.txt"; bad=0; \
	for lab in $${LAB:-$$($(PYTHON) examples/run.py --list)}; do \
	  status=0; timeout --signal=INT --kill-after=30 $(LIMIT) $(PYTHON) examples/run.py --results "$(OUT)" $$lab || status=$$?; \
	  case $$status in \
	    0) said="measured";; 3) said="skipped: it cannot run on this machine";; 2) said="not started: no usable GPU"; bad=1;; \
	    124|137) said="stopped after $(LIMIT) s; rows measured until then are kept"; bad=1;; \
	    *) said="failed with status $$status; rows measured until then are kept"; bad=1;; \
	  esac; echo "$$lab: $$said" | tee -a "$(OUT)/outcome.txt"; \
	done; exit $$bad

compare:    ## two folders of results side by side (A=, B=, ARGS=--markdown)
	@$(PYTHON) examples/run.py compare $(ARGS) "$(A)" "$(B)"

stale: .venv/site.stamp
	@$(BIN)/python tools/results.py stale

check-results: .venv/site.stamp               ## every committed result is complete
	@$(BIN)/python tools/results.py check

fetch-results: .venv/site.stamp
	@$(BIN)/python tools/results.py fetch "$(OUT)" $(if $(RUN),--run $(RUN))

take-results: .venv/site.stamp                ## take newer results of FROM= (CLAIMS=1: only if the pages' sentences hold)
	@$(if $(CLAIMS),$(MAKE) --no-print-directory .venv/test.stamp && ,)$(BIN)/python tools/results.py take "$(FROM)" $(if $(CLAIMS),--claims)

summary: .venv/site.stamp
	@$(BIN)/python tools/results.py summary "$(FROM)"

outputs: .venv/test.stamp                     ## write examples/outputs again from the files
	@$(BIN)/python tools/outputs.py

notebooks: .venv/site.stamp                   ## write the notebooks as the site has them into dist/notebooks
	@$(BIN)/python tools/notebooks.py make --to dist/notebooks

notebooks-run: ## execute the labs' notebooks on this machine's GPU (LAB=name, PYTHON=)
	@rm -rf .cache/executed; $(PYTHON) tools/notebooks.py run --to .cache/executed $(LAB) && $(PYTHON) tools/notebooks.py take .cache/executed

##@ Publish

offline: .venv/site.stamp node_modules/.stamp ## the whole site as dist/flash-attention-offline.zip, to read without a network
	@SITE_URL= OFFLINE= $(BIN)/mkdocs build --strict --site-dir .cache/offline
	@$(BIN)/python docs/hooks/core/archive.py .cache/offline dist/flash-attention-offline.zip

propose-results:
	@tools/propose.sh "$(SUMMARY)"

push-notebooks:
	@cd made && git init --quiet --initial-branch notebooks && git add en zh \
	  && git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" commit --quiet -m "The notebooks of $$GITHUB_SHA" \
	  && gh auth setup-git && git push --force "$$GITHUB_SERVER_URL/$$GITHUB_REPOSITORY" notebooks

publish-now:
	@gh workflow run publish.yml --ref main

##@ Keep

language: .venv/site.stamp                   ## what a language still lacks (LANG=fr): pages, words, settings
	@$(BIN)/python tools/language.py $(LANG)

verify-vllm: .venv/verify.stamp              ## check what is said about vLLM in its source (VERSION=; needs the network)
	@$(BIN)/python tools/verify/vllm.py $(VERSION)

# One version of a package for all groups and all Pythons: test.txt holds what the tests need beyond site.txt, where the two agree; versions stay as they are unless an edit or UPGRADE= moves them. uv asks PIP_INDEX_URL too.
lock: | tools                                 ## write requirements/*.txt from pyproject.toml, with hashes (UPGRADE=1: newest)
	@$(PYTHON) -m venv .cache/lock && .cache/lock/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt \
	  || $(call unfetched,requirements/lock.txt)
	@for group in site test verify build pip lock; do \
	  $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX="$(PIP_INDEX_URL)") .cache/lock/bin/uv pip compile pyproject.toml --quiet --group $$group --universal --python-version $(OLDEST) --fork-strategy fewest \
	    --generate-hashes --annotation-style line $(if $(UPGRADE),--upgrade) --custom-compile-command "make lock" --output-file requirements/$$group.txt \
	    $$(case $$group in test|verify) echo --constraint requirements/site.txt;; esac) || exit 1; \
	done

clean:      ## remove what was made, except .venv and node_modules
	rm -rf site .cache .pytest_cache .hypothesis

tools:
	@command -v $(PYTHON) >/dev/null || $(call stop,There is no $(PYTHON). Install Python $(OLDEST) or newer or name one: make PYTHON=python3.12)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(OLDEST)".split("."))))' \
	  || $(call stop,$(PYTHON) is older than Python $(OLDEST). Name a newer one: make PYTHON=python3.12)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || $(call stop,$(PYTHON) cannot make virtual environments. Install its venv module (Debian: apt-get install python3-venv).)

# Everything but torch is locked: a file whose hash is not in requirements/ is refused, and so is code that would be built from source, but for jieba,
# which has no wheel and is built by a locked setuptools.
locked = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
wheels = --only-binary :all: --no-binary jieba --build-constraint requirements/build.txt
unfetched = $(call stop,pip could not install $(1). If it names a hash above$(comma) what it fetched is not what we locked: do not use it. Else check the network (or PIP_INDEX_URL) and run make again.)
comma = ,

.venv/bin/pip: | tools
	@$(PYTHON) -m venv .venv || $(call stop,Could not create .venv here. Is this folder writable?)
	@$(locked) -r requirements/pip.txt || $(call unfetched,requirements/pip.txt)

.venv/site.stamp: requirements/site.txt requirements/build.txt | .venv/bin/pip
	@echo "Installing what the site needs into .venv"
	@$(locked) $(wheels) -r requirements/site.txt || $(call unfetched,requirements/site.txt)
	@touch $@

# torch first and alone: the CPU build where the package index has one (PIP_EXTRA_INDEX_URL can name such an index).
.venv/test.stamp: pyproject.toml requirements/test.txt .venv/site.stamp
	@echo "Installing what the tests need into .venv (torch takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lab || $(call unfetched,torch)
	@$(locked) $(wheels) -r requirements/test.txt || $(call unfetched,requirements/test.txt)
	@touch $@

.venv/verify.stamp: requirements/verify.txt requirements/build.txt | .venv/bin/pip
	@$(locked) $(wheels) -r requirements/verify.txt || $(call unfetched,requirements/verify.txt)
	@touch $@

node_modules/.stamp: package.json package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null \
	  || $(call stop,Node.js is missing: formulas are rendered by KaTeX at build. Install Node 20 or newer with npm and run make again.)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' \
	  || $(call stop,Node.js is older than 20. Install Node 20 or newer and run make again.)
	@npm ci --silent --no-fund --no-audit || $(call stop,npm could not fetch the packages of package-lock.json. Check the network and run make again.)
	@touch $@

tools/lighthouse/node_modules/.stamp: tools/lighthouse/package.json tools/lighthouse/package-lock.json node_modules/.stamp
	@cd tools/lighthouse && npm ci --silent --no-fund --no-audit || $(call stop,npm could not fetch the packages of tools/lighthouse/package-lock.json. Check the network and run make again.)
	@touch $@

browser: .venv/test.stamp
	@$(BIN)/python tools/browser.py
