# make        programs, C library, manual pages and completions
# make demo   shows on a real mount what segno does
# make test   dependencies, format, lints, all tests, examples, and a smoke test on a real mount
# make models every schedule of the engine's small parts (loom), and many of whole operations (shuttle)
# make fmt    formats everything
# make setup  installs the programs that both call
# make install [DESTDIR=] [PREFIX=/usr/local] [SBINDIR=/usr/sbin]: copies what `make` has built, and needs no cargo
# make uninstall removes what was installed without DESTDIR
# make deb    Debian packages segnofs, segno-lab, libsegno0 and libsegno-dev, in target/debian
# make static one file that needs no library: target/static/segno with musl, else segno-lite, without object stores
# make wheel  the Python package segnofs, in target/wheels

.PHONY: all deb demo fmt install manual models programs setup static test uninstall wheel

all: programs manual

# Two builds: in one, the program would link an engine with the laboratory's access. The C library is of the first.
programs:
	cargo build --release -p segno-cli -p segno-capi
	cargo build --release -p segno-lab

demo: setup programs
	scripts/demo

# The dev profile is optimised enough for the tests, checks arithmetic and lock ranks, and builds faster than release.
test: setup
	scripts/deny
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --no-fail-fast
	cargo clippy -p segno-cli --no-default-features --all-targets -- -D warnings
	cargo clippy -p segno --no-default-features -- -D warnings
	cargo clippy -p segno --no-default-features --features compress -- -D warnings
	cargo clippy -p segno --no-default-features --features mount -- -D warnings
	cargo clippy -p segno --no-default-features --features repair -- -D warnings
	cargo test -p segno-engine --features loom --lib models
	cargo test -p segno-sim --features shuttle --lib schedule
	scripts/examples
	scripts/test-capi
	scripts/test-python
	cargo run -p segno-lab -- hunt --rotate 3
	cargo build -p segno-cli
	SEGNO="$${CARGO_TARGET_DIR:-target}/debug/segno" TRANSPORT=classic scripts/smoke
	SEGNO="$${CARGO_TARGET_DIR:-target}/debug/segno" scripts/smoke
	SEGNO="$${CARGO_TARGET_DIR:-target}/debug/segno" cargo run -p xtask -- memory --quick
	SEGNO="$${CARGO_TARGET_DIR:-target}/debug/segno" cargo run -p segno-sim --example commands -- --cases 18 --untimed

# Other locks, so other builds; `schedules 0 N` tries N schedules.
models:
	cargo test -p segno-engine --features loom --lib models
	cargo run -p segno-sim --features shuttle --example schedules -- 0 10000

fmt:
	cargo fmt --all

setup:
	@scripts/setup

# Pages and completions come from the command line's definition.
manual:
	SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" cargo run --release -q -p segno-lab --example manual -- "$${CARGO_TARGET_DIR:-target}/manual"

install:
	DESTDIR="$(DESTDIR)" PREFIX="$(or $(PREFIX),/usr/local)" SBINDIR="$(or $(SBINDIR),/usr/sbin)" scripts/install

uninstall:
	PREFIX="$(or $(PREFIX),/usr/local)" scripts/install remove

deb: all
	scripts/deb

static:
	scripts/static

wheel:
	scripts/wheel
