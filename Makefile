# A thin front to CMake: `make help` lists what there is. The presets in CMakePresets.json say how
# each configuration is built; release goes into build/, any other into build-<preset>/.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE ?= cmake

ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif
export CTEST_OUTPUT_ON_FAILURE = 1

build_in = $(CMAKE) --build $(1) --parallel $(JOBS)
# One test more than there are cores: many tests wait for processes or threads. The limit is for tests that hang:
# on a machine that is busy with other work the longest takes minutes.
ctest_in = ctest --test-dir $(1) --parallel $(shell expr $(JOBS) + 1) --no-tests=error \
	--no-label-summary --timeout 1200
# Which tests run in which build is said by labels, in tests/CMakeLists.txt.
tests_of_release = -LE '^(long|asan-only)$$'
tests_of_asan = -LE '^(long|release-only)$$'
shown_recording = tests/data/recordings/train_eval_phases.native.pickle.xz
c_files = $(shell find include src cli adapters examples tests bench -name '*.[ch]' -o -name '*.cpp')

.PHONY: all program run setup test test-quick test-release test-viewer test-viewer-beside test-clang \
	test-asan test-tsan test-sanitized release-program \
	checks cards mutants bench bench-plan bench-plan-from bench-viewer doctor-accuracy fuzz crafted soak crash-safety campaign viewer viewer-packages \
	check-viewer check-adapter test-fleet site install wheel test-wheel sdist deb test-deb test-debian13-torch test-traced \
	release \
	uninstall format check-format tidy clean help

## make             builds the libraries and the program: build/vramwise
all: program

# A user's build: no -Werror (a newer compiler has new warnings), tests if cmocka is installed. Configures
# again if a library was missing: it may have been installed since.
program:
	@if [ ! -e build/CMakeCache.txt ]; then \
		$(CMAKE) -S . -B build -DCMAKE_BUILD_TYPE=Release --log-level=NOTICE \
			-DVW_TESTS=$(if $(shell pkg-config --exists cmocka 2>/dev/null && echo yes),ON,OFF); \
	elif grep -q '^VW_.*-NOTFOUND$$' build/CMakeCache.txt; then \
		$(CMAKE) -S . -B build --log-level=NOTICE; \
	fi
	@$(call build_in,build) --target program

## make run         sets this machine up, builds, and shows build/vramwise at work
run:
	@tools/setup.sh build
	@$(MAKE) --no-print-directory program
	build/vramwise demo
	@echo
	build/vramwise stats $(shown_recording) --top 5 --no-summary
	@echo
	build/vramwise replay $(shown_recording) --smallest-card
	@echo
	build/vramwise tune $(shown_recording) --card 6GiB

## make setup       installs what building and testing need and this machine lacks
setup:
	@tools/setup.sh build test viewer

## make test        everything CI runs: gcc optimized, clang with ASan, UBSan and checks, TSan, the page of
##                  `vramwise view` in a browser, tools/check_*
test: setup
	@$(MAKE) --no-print-directory release-program
	@$(MAKE) --no-print-directory -j2 test-sanitized test-viewer-beside
	@$(MAKE) --no-print-directory test-release

test-sanitized:
	@$(MAKE) --no-print-directory test-tsan
	@$(MAKE) --no-print-directory test-asan

# The browser needs only part of a core. Its output is shown in one piece, at the end.
viewer_said = build/viewer-tests.log
test-viewer-beside:
	@status=0; $(MAKE) --no-print-directory test-viewer > $(viewer_said) 2>&1 || status=$$?; \
		cat $(viewer_said); exit $$status

## make test-quick  the release build and its tests only
test-quick:
	@tools/setup.sh build test
	@$(MAKE) --no-print-directory test-release

# The checks need the release libraries. They run before the tests, so that ctest's summary comes last.
test-release:
	@echo "== release"
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build)
	@$(MAKE) --no-print-directory checks
	@$(call ctest_in,build) $(tests_of_release)

# clang, with its warnings over everything, and invariant checks. The recordings of VRAMWISE_CORPUS are
# for the release build; here those of tests/data are enough.
test-asan:
	@echo "== asan"
	@$(CMAKE) --preset asan --log-level=WARNING
	@$(call build_in,build-asan)
	@env -u VRAMWISE_CORPUS $(call ctest_in,build-asan) $(tests_of_asan)

## make test-clang  clang with invariant checks and no sanitizer: nothing that make test does not see
test-clang:
	@echo "== clang"
	@$(CMAKE) --preset clang --log-level=WARNING
	@$(call build_in,build-clang)
	@$(call ctest_in,build-clang) -L '^(unit|contract)$$'

# Only tests with several threads: for the others the thread sanitizer takes minutes and finds nothing.
test-tsan:
	@echo "== tsan"
	@$(CMAKE) --preset tsan --log-level=WARNING
	@$(call build_in,build-tsan) --target threads_tests
	@$(call ctest_in,build-tsan) -L '^threads$$'

## make test-viewer  check-viewer, and the page in a browser, made by build/vramwise
test-viewer: check-viewer release-program
	@echo "== viewer"
	@tests/viewer/run.sh

release-program:
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target program

checks:
	@tools/check_layers.py
	@tools/check_names.py
	@tools/check_dead.py build
	@tools/check_struct_size.py
	@tools/check_links.py
	@tools/check_headers.sh
	@tools/check_symbols.sh build
	@tools/check_shipped.py build/vramwise build/libvramwise.so build/libvramwise-analysis.so \
		build/libvramwise-torch.so
	@tools/make_site.py build
	@if [ -n "$$VRAMWISE_TORCH_HEADERS" ]; then $(MAKE) --no-print-directory check-adapter \
		TORCH_HEADERS="$$VRAMWISE_TORCH_HEADERS" ONLY=2.5,2.8,2.13,2.15; fi

## make test-fleet  docs/fleet on this machine: the scripts on a real Slurm and a real Dask, a day of 64 ranks in a
##                  real Prometheus, the manifests as a node runs them. Needs root, and Debian's slurm-wlm, munge,
##                  python3-distributed, python3-yaml and prometheus. GRAFANA_SCHEMAS, KUBERNETES_SCHEMAS: folders
##                  of schemas, if they are to be checked (tools/check_schemas.py)
test-fleet: program
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target live_job
	tests/fleet/test_history.py build/vramwise build/tests/live_job
	tests/fleet/test_kubernetes.py build/vramwise build/tests/live_job
	$(if $(GRAFANA_SCHEMAS)$(KUBERNETES_SCHEMAS),tools/check_schemas.py $(if $(GRAFANA_SCHEMAS),--grafana \
		"$(GRAFANA_SCHEMAS)") $(if $(KUBERNETES_SCHEMAS),--kubernetes "$(KUBERNETES_SCHEMAS)"))
	tests/fleet/test_slurm.py build/vramwise build/tests/live_job
	tests/fleet/test_dask.py build/vramwise

## make check-adapter  compiles the adapter against the headers of every PyTorch in TORCH_HEADERS,
##                  and for ROCm too where HIP's headers are
check-adapter:
	@test -n "$(TORCH_HEADERS)" || { echo "TORCH_HEADERS names no folder" >&2; exit 3; }
	@tools/make_adapters.py "$(TORCH_HEADERS)" --check --cuda $(CUDA_HEADERS) \
		$(if $(HIP_HEADERS),--hip $(HIP_HEADERS)) $(if $(ONLY),--only $(ONLY))
CUDA_HEADERS ?= /usr/local/cuda/include
HIP_HEADERS ?= $(patsubst %/hip/hip_runtime_api.h,%,$(firstword \
	$(wildcard /opt/rocm/include/hip/hip_runtime_api.h /usr/include/hip/hip_runtime_api.h)))

## make cards       on every recording our engine needs no larger card than expandable segments; the
##                  tests have the small ones
cards:
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target integration_test_paged_never_worse
	@build/tests/integration_paged_never_worse --all

## make mutants     breaks the engines' rules one by one: a test must notice each
mutants:
	@tools/setup.sh build test
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build)
	@$(call ctest_in,build) -L '^mutants$$'

## make bench       builds and runs the benchmarks
bench:
	@tools/setup.sh build test bench
	@$(CMAKE) --preset release --log-level=WARNING
	@test -e bench/CMakeLists.txt || { echo "there are no benchmarks yet" >&2; exit 3; }
	@$(call build_in,build) --target bench

## make bench-viewer  the page's size, frames and memory, into bench/results/viewer.md
bench-viewer: viewer-packages
	@tools/setup.sh build test
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target program
	@node bench/viewer/bench_viewer.mjs build

## make bench-plan  the planner against measured steps, and what a search takes, into bench/results
bench-plan:
	@tools/setup.sh build test
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target bench-plan

## make fuzz        fuzzes every target, or TARGETS, for FUZZ_SECONDS (60) each; adds to bench/results/fuzz.csv
fuzz:
	@tools/setup.sh build test
	@$(CMAKE) --preset fuzz --log-level=WARNING
	@$(call build_in,build-fuzz) --target $(if $(TARGETS),$(addprefix fuzz_,$(TARGETS)),fuzz_targets)
	@tools/fuzz.py build-fuzz $(FUZZ_SECONDS) $(TARGETS)

## make soak        churn with threads, spilling, parking and failures for SOAK_SECONDS (3600)
SOAK_SECONDS ?= 3600
soak: program
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target threads_tests
	@tools/soak.py build $(SOAK_SECONDS)

## make crash-safety  kill -9 at KILLS (1000) random moments of writing: the old file or the new one is there
KILLS ?= 1000
crash-safety: program
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target program kill_at
	@VRAMWISE_KILLS=$(KILLS) PYTHONDONTWRITEBYTECODE=1 tests/safety/test_crash_safety.py build/vramwise \
		build/tests/kill_at build Random

## make campaign    SEEDS (20000) random programs under random failures, from seed FIRST_SEED (1), and LATE_SEEDS (200)
##                  of each kind whose work runs late
SEEDS ?= 20000
LATE_SEEDS ?= 200
FIRST_SEED ?= 1
campaign:
	@tools/setup.sh build test
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target integration_test_fault_campaign integration_test_paged_late_work
	@VRAMWISE_SEEDS=$(SEEDS),$(FIRST_SEED) build/tests/integration_fault_campaign
	@VRAMWISE_SEEDS=$(LATE_SEEDS),$(FIRST_SEED) build/tests/integration_paged_late_work

## make crafted     every command on every crafted file, under ASan and UBSan: minutes
crafted:
	@tools/setup.sh build test
	@$(CMAKE) --preset asan --log-level=WARNING
	@$(call build_in,build-asan) --target program
	@PYTHONDONTWRITEBYTECODE=1 tests/safety/test_crafted.py build-asan/vramwise Everything

## make bench-plan-from  recorded steps predicted from one another, into bench/results/plan_from.md
bench-plan-from:
	@tools/setup.sh build test
	@$(CMAKE) --preset release --log-level=WARNING
	@$(call build_in,build) --target integration_test_plan_from_steps
	@test -n "$(VRAMWISE_CORPUS)" || { echo "VRAMWISE_CORPUS names no folder" >&2; exit 3; }
	VRAMWISE_CORPUS="$(VRAMWISE_CORPUS)" VRAMWISE_PLAN_FROM_RESULTS=bench/results/plan_from.md \
		build/tests/integration_plan_from_steps

## make doctor-accuracy  how often the doctor is right, into bench/results/doctor.md
doctor-accuracy: program
	python3 bench/doctor_accuracy.py build/vramwise \
		$(if $(VRAMWISE_CORPUS),--corpus "$(VRAMWISE_CORPUS)") > build/doctor.md
	@mv build/doctor.md bench/results/doctor.md && sed -n 's/^[0-9]* of .*/&/p' bench/results/doctor.md

## make viewer      builds the page of `vramwise view` again: viewer/dist/page.html, which is committed
viewer: viewer-packages
	@npm --prefix viewer run --silent build

# npm needs the network the first time, and when the lock file has changed.
viewer-packages:
	@tools/setup.sh viewer
	@node viewer/scripts/packages.mjs

## make check-viewer  types, unit tests, and that the committed page is what the sources give
check-viewer: viewer-packages
	@node viewer/scripts/check.mjs

## make site        the documentation as a static site in build/site, with a demo; its links are checked
site:
	@tools/setup.sh build site
	@$(MAKE) --no-print-directory program
	@tools/make_site.py build

## make install     installs under PREFIX (/usr/local); DESTDIR is put before it
install: program
	DESTDIR="$(DESTDIR)" $(CMAKE) --install build --prefix "$(PREFIX)"

## make wheel       dist/vramwise-*.whl, which needs glibc 2.31 and Python 3.9 alone; MACHINE=aarch64 cross-builds;
##                  TORCH_HEADERS=DIR: with compiled adapters for the PyTorch versions whose headers are in DIR
MACHINE ?= x86_64
wheel:
	@tools/setup.sh package
	@TORCH_HEADERS="$(TORCH_HEADERS)" tools/make_wheel.sh $(MACHINE)

## make test-wheel  that wheel, and the sdist, in bare roots of Debian; MACHINE=aarch64: under an emulator
test-wheel: wheel
	@tests/install/test_wheel.sh $(MACHINE)

## make sdist       dist/vramwise-*.tar.gz, from which pip builds a wheel anywhere
sdist:
	@mkdir -p dist
	@cd python && python3 -B -c 'import build_backend; print("dist/" + build_backend.build_sdist("../dist"))'

## make deb         dist/*.deb for Debian 12: vramwise, libvramwise0.2, libvramwise-dev, python3-vramwise
deb:
	@tools/setup.sh package
	@tools/make_deb.sh

## make test-deb    those packages installed, used and removed again in a bare Debian 12
test-deb: deb
	@tests/install/test_deb.sh

## make test-traced  plans by tracing with the PyTorch of Debian 13, without a GPU, in a root of 2 GB
test-traced: program
	@tests/install/try_traced.sh

## make test-debian13-torch  the adapter with the PyTorch 2.6 of Debian 13, in a root of 5 GB
test-debian13-torch: program
	@tests/install/try_debian13_torch.sh

## make release     wheels, sdist, Debian packages and checksums in dist/, tried, and a tag; DRY_RUN=1: no tag
release:
	@tools/release.sh $(if $(DRY_RUN),--dry-run)

## make uninstall   removes what make install put there (give DESTDIR again if you gave it)
uninstall:
	DESTDIR="$(DESTDIR)" $(CMAKE) -DMANIFEST=build/install_manifest.txt -P cmake/uninstall.cmake

## make format      clang-format on all of our C; make check-format only looks
format:
	@tools/setup.sh style
	@clang-format -i $(c_files)

check-format:
	@tools/setup.sh style
	@clang-format --dry-run --Werror $(c_files)

## make tidy        clang-tidy over the libraries and the program
tidy:
	@tools/setup.sh build test style
	@$(CMAKE) --preset clang --log-level=WARNING
	@clang-tidy -p build-clang --quiet $(shell find src cli -name '*.c')

## make clean       removes every build folder, and dist
clean:
	rm -rf build build-debug build-clang build-asan build-tsan build-fuzz build-wheel build-deb dist viewer/build

help:
	@sed -n 's/^## //p' Makefile
