# The front end of the build; CMake and Ninja do the work.
#   make             install what is missing, build library and examples
#                                                                make train     the main job: a CNN on real images
#   make gpt         a small GPT on Debian's licences, see docs/GPT.md
#   make vae         a variational autoencoder on the images, see docs/VAE.md
#   make resnet      a residual network on real images, see docs/RESNET.md
#   make states      a spiking network of states, see docs/STATES.md
#   make test        build and run every test                    make examples  build the examples and test what they print
#   make check       include rule, warnings, format, analysis    make sanitize  the tests under address and undefined-behaviour checks
#   make sanitize-tenth                                          a tenth of them, as in continuous integration
#   make test-pjrt                                              programs on a PJRT plugin: XLA's CPU, which it fetches; PLUGIN=path;
#                                                                PLUGIN=oldest: XLA's CPU of the oldest supported version
#   make stress      eight threads against one another for an hour
#   make fuzz        fuzz the parsers                            make sanitize-thread  the tests under the thread sanitizer
#   make bench       compare with JAX and PyTorch                make format    apply the formatting
#   make install     into PREFIX                                 make new-op    add an op to a copy; check that the tests cover it
# Settings: BUILD=folder  CC=clang  WERROR=ON  TYPE=Debug  PREFIX=/usr/local  ARGS="…" (train, gpt, vae, resnet, states)  TESTS=regex (test)
#           PEER="venv/bin/python other/bin/python" ARGS="--only cnn* --resume" (bench; see bench/compare.py)
#           STRESS_SECONDS=3600  FUZZ_SECONDS=60 (each parser)  FUZZ=npy (one parser)  OPTIONS="-DMF_NATIVE=OFF …" (CMake's)

BUILD  ?= build
TYPE   ?= RelWithDebInfo
WERROR ?= OFF
PREFIX ?= /usr/local

ifneq ($(origin CC),default)
compiler := -DCMAKE_C_COMPILER=$(CC)
endif
configure = cmake -G Ninja -S . -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -B
check_gcc = $(if $(filter ON,$(WERROR)),$(BUILD),build-gcc)

.PHONY: all build setup mpi train gpt vae resnet states test test-pjrt stress examples bench check format sanitize sanitize-tenth sanitize-thread new-op \
        fuzz install clean
.NOTPARALLEL:
all: build

setup:
	@scripts/setup.sh build

# Ninja reruns CMake by itself when a CMakeLists.txt or the set of sources changes; this only passes changed settings.
build: setup
	@$(configure) $(BUILD) -DCMAKE_BUILD_TYPE=$(TYPE) -DMF_WERROR=$(WERROR) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(compiler) $(OPTIONS) >/dev/null
	@cmake --build $(BUILD)

train: build
	@$(BUILD)/examples/data_parallel $(ARGS)

gpt: build
	@$(BUILD)/examples/gpt $(ARGS)

vae: build
	@$(BUILD)/examples/vae $(ARGS)

resnet: build
	@$(BUILD)/examples/resnet $(ARGS)

states: build
	@$(BUILD)/examples/states $(ARGS)

# Without MPI's launchers, the tests that need them report that they are skipped.
mpi:
	@scripts/setup.sh mpi || echo "setup: going on without MPI's launchers"

test: build mpi
	@cmake --build $(BUILD) --target tests
	@scripts/run_tests.sh $(BUILD) $(if $(TESTS),-R '$(TESTS)')

# ROOMS="ops pmap random differential examples": the folders of tests that run with the plugin as default backend.
test-pjrt: build
	@cmake --build $(BUILD) --target tests
	@scripts/test_pjrt.sh $(BUILD) $(or $(filter-out oldest,$(PLUGIN)),$$(scripts/fetch_pjrt_plugin.sh $(PLUGIN))) $(ROOMS)

STRESS_SECONDS ?= 3600
stress: build
	@cmake --build $(BUILD) --target safety_test_stress
	@MF_STRESS_SECONDS=$(STRESS_SECONDS) $(BUILD)/tests/safety/test_stress

examples: build
	@scripts/run_tests.sh $(BUILD) -L example
	@echo "The programs are in $(BUILD)/examples."

bench: build
	@cmake --build $(BUILD) --target benchmarks
	@MF_BUILD_DIR=$(BUILD) PEER="$(PEER)" ARGS="$(ARGS)" bench/run.sh

check: setup
	@scripts/setup.sh check
	@scripts/check_includes.py
	@scripts/check_names.py
	@scripts/check_ops.py
	@scripts/check_host_access.py
	@scripts/check_comments.py
	@scripts/check_format.sh
	@$(configure) $(check_gcc) -DCMAKE_C_COMPILER=gcc -DMF_WERROR=ON >/dev/null
	@cmake --build $(check_gcc) --target all tests
	@$(configure) build-clang -DCMAKE_C_COMPILER=clang -DMF_WERROR=ON >/dev/null
	@cmake --build build-clang --target all tests
	@scripts/check_symbols.sh build-clang
	@scripts/check_tidy.sh build-clang
	@echo "check: all clean"

format:
	@scripts/check_format.sh --apply

sanitize: setup mpi
	@$(configure) build-asan -DCMAKE_BUILD_TYPE=Debug -DMF_SANITIZE=address,undefined $(compiler) >/dev/null
	@cmake --build build-asan --target all tests
	@scripts/run_tests.sh build-asan $(if $(TESTS),-R '$(TESTS)')

# Builds and runs only the tests that tests/sanitized.txt lists.
sanitize-tenth: setup
	@$(configure) build-asan -DCMAKE_BUILD_TYPE=Debug -DMF_SANITIZE=address,undefined $(compiler) >/dev/null
	@cmake --build build-asan --target sanitized
	@scripts/run_tests.sh build-asan -L sanitized

sanitize-thread: setup mpi
	@$(configure) build-tsan -DCMAKE_BUILD_TYPE=Debug -DMF_SANITIZE=thread $(compiler) >/dev/null
	@cmake --build build-tsan --target all tests
	@scripts/run_tests.sh build-tsan $(if $(TESTS),-R '$(TESTS)')

# Shows on a copy of the tree what adding an op takes. Runs for some minutes.
new-op: setup
	@scripts/try_new_op.py

FUZZ_SECONDS ?= 60
fuzz: setup
	@scripts/setup.sh check
	@$(configure) build-fuzz -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DMF_SANITIZE=address,undefined -DMF_FUZZ=ON >/dev/null
	@cmake --build build-fuzz --target fuzzers
	@scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build build-gcc build-clang build-asan build-tsan build-fuzz
