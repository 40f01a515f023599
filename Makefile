# Each target makes what it needs. `make help` lists them. POSIX shell, GNU make; Linux, macOS, WSL.
PYTHON ?= python3
PORT ?= 8000
OUT ?= measured
FROM ?= measured
LIMIT ?= 900
DIR ?= site
BIN = .venv/bin
export NO_MKDOCS_2_WARNING = 1
export PYTHONUTF8 = 1
stop = { echo "$(1)" >&2; exit 1; }

.PHONY: help serve site check-site test mutate labs compare measure check-results fetch-results take-results summary propose-results publish-now offline outputs notebooks notebooks-run verify-vllm browser clean tools
help:       ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

serve: .venv/site.stamp node_modules/.stamp   ## the whole site on 127.0.0.1:8000 (PORT=), rebuilt and reloaded on every save
	@$(BIN)/python -c "import socket; socket.socket().connect_ex(('127.0.0.1', $(PORT))) and exit(0); exit(1)" \
	  || $(call stop,Port $(PORT) is taken. Stop what listens there or choose another: make serve PORT=8001)
	@echo "Building; then open http://127.0.0.1:$(PORT)/ (Ctrl+C stops)"
	@exec $(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

site: .venv/site.stamp node_modules/.stamp    ## strict build into site/ (SITE_URL=https://host/path/ for canonical links and the sitemap; OFFLINE= an archive to publish)
	@[ -n "$(SITE_URL)" ] || echo "SITE_URL is unset: the site works anywhere, without canonical links, sitemap and copyable addresses."
	@SITE_URL="$(SITE_URL)" OFFLINE="$(OFFLINE)" $(BIN)/mkdocs build --strict

offline: .venv/site.stamp node_modules/.stamp ## the whole site as dist/flash-attention-offline.zip, to open through any file server
	@SITE_URL= OFFLINE= $(BIN)/mkdocs build --strict --site-dir .cache/offline
	@$(BIN)/python docs/hooks/core/archive.py .cache/offline dist/flash-attention-offline.zip

check-site: .venv/site.stamp                  ## what is wrong in a built site, one line each (DIR=site, SITE_URL= if it was built for one)
	@$(BIN)/python tests/check_site.py $(if $(SITE_URL),--url "$(SITE_URL)") "$(DIR)"

test: .venv/test.stamp node_modules/.stamp browser   ## everything (ARGS= for pytest)
	@$(BIN)/python -m pytest $(ARGS)

mutate: .venv/test.stamp node_modules/.stamp browser ## break each promise on purpose and see its check turn red (ARGS= names; --list)
	@$(BIN)/python tests/mutations.py $(ARGS)

labs:       ## run the labs on this machine's GPU and write examples/results (LAB=name, PYTHON= one that has torch)
	@$(PYTHON) examples/run.py $(LAB)

compare:    ## two folders of results side by side (A=, B=, ARGS=--markdown)
	@$(PYTHON) examples/run.py compare $(ARGS) "$(A)" "$(B)"

# Each lab in a process of its own, so that an error of the GPU ends one lab and not those behind it.
measure:    ## labs as the GPU runner does: one process each, LIMIT= seconds, into OUT=, what became of them in OUT/outcome.txt
	@mkdir -p "$(OUT)" && : > "$(OUT)/outcome.txt"; bad=0; \
	for lab in $${LAB:-$$($(PYTHON) examples/run.py --list)}; do \
	  status=0; timeout --signal=INT --kill-after=30 $(LIMIT) $(PYTHON) examples/run.py --results "$(OUT)" $$lab || status=$$?; \
	  case $$status in \
	    0) said="measured";; 3) said="skipped: it cannot run on this machine";; 2) said="not started: no usable GPU"; bad=1;; \
	    124|137) said="stopped after $(LIMIT) s; rows measured until then are kept"; bad=1;; \
	    *) said="failed with status $$status; rows measured until then are kept"; bad=1;; \
	  esac; echo "$$lab: $$said" | tee -a "$(OUT)/outcome.txt"; \
	done; exit $$bad

check-results: .venv/site.stamp               ## every committed result is complete
	@$(BIN)/python .github/results.py check

fetch-results: .venv/site.stamp
	@$(BIN)/python .github/results.py fetch "$(OUT)" $(if $(RUN),--run $(RUN))

take-results: .venv/site.stamp                ## put complete, newer results of FROM= into examples/results (CLAIMS=1: only if the pages' sentences hold)
	@$(if $(CLAIMS),$(MAKE) --no-print-directory .venv/test.stamp && ,)$(BIN)/python .github/results.py take "$(FROM)" $(if $(CLAIMS),--claims)

summary: .venv/site.stamp
	@$(BIN)/python .github/results.py summary "$(FROM)"

propose-results:
	@.github/propose.sh "$(SUMMARY)"

publish-now:
	@gh workflow run publish.yml --ref main

outputs: .venv/test.stamp                     ## write examples/outputs again from the files
	@$(BIN)/python tests/outputs.py

notebooks: .venv/site.stamp                   ## write docs/*/notebooks again from programs and pages; outputs stay where the code is the same
	@$(BIN)/python tests/notebooks.py

notebooks-run: ## execute the labs' notebooks on this machine's GPU and put them into docs (LAB=name, PYTHON= one with torch, nbclient, ipykernel)
	@rm -rf .cache/executed; $(PYTHON) tests/notebooks.py run --to .cache/executed $(LAB) && $(PYTHON) tests/notebooks.py take .cache/executed

verify-vllm: .venv/verify.stamp              ## check every statement about vLLM in its source (VERSION=; needs the network)
	@$(BIN)/python tests/verify/vllm.py $(VERSION)

clean:      ## remove what was made, except .venv and node_modules
	rm -rf site .cache .pytest_cache .hypothesis

tools:
	@command -v $(PYTHON) >/dev/null || $(call stop,There is no $(PYTHON). Install Python 3.11 or newer or name one: make PYTHON=python3.12)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || $(call stop,$(PYTHON) is older than Python 3.11. Name a newer one: make PYTHON=python3.12)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || $(call stop,$(PYTHON) cannot make virtual environments. Install its venv module (Debian: apt-get install python3-venv).)

.venv/bin/pip: | tools
	@$(PYTHON) -m venv .venv || $(call stop,Could not create .venv here. Is this folder writable?)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip==26.3" \
	  || $(call stop,pip could not fetch packages. Check the network (or PIP_INDEX_URL) and run make again.)

.venv/site.stamp: pyproject.toml | .venv/bin/pip
	@echo "Installing what the site needs into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group site \
	  || $(call stop,pip could not install the packages of pyproject.toml. Check the network and run make again.)
	@touch $@

# torch first and alone: the CPU build where the package index has one (PIP_EXTRA_INDEX_URL can name such an index).
.venv/test.stamp: pyproject.toml .venv/site.stamp
	@echo "Installing what the tests need into .venv (torch takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lab \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --group test \
	  || $(call stop,pip could not install the packages of pyproject.toml. Check the network and run make again.)
	@touch $@

.venv/verify.stamp: pyproject.toml | .venv/bin/pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group verify \
	  || $(call stop,pip could not install unearth. Check the network and run make again.)
	@touch $@

node_modules/.stamp: package.json package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null \
	  || $(call stop,Node.js is missing: formulas are rendered by KaTeX at build. Install Node 20 or newer with npm and run make again.)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' \
	  || $(call stop,Node.js is older than 20. Install Node 20 or newer and run make again.)
	@npm ci --silent --no-fund --no-audit || $(call stop,npm could not fetch the packages of package-lock.json. Check the network and run make again.)
	@touch $@

browser: .venv/test.stamp
	@$(BIN)/python tests/browser.py
