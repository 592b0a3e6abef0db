# make demo   shows on a real mount what segno does
# make test   dependencies, format, lints, all tests, examples, and a smoke test on a real mount
# make models every schedule of the engine's small parts (loom), and many of whole operations (shuttle)
# make fmt    formats everything
# make setup  installs the programs that both call
# make install [DESTDIR=] [PREFIX=/usr/local] [SBINDIR=/usr/sbin]: programs, links, manual pages, completions, C library
# make deb    Debian packages segnofs, segno-lab, libsegno0 and libsegno-dev, in target/debian
# make static one file that needs no library: target/static/segno with musl, else segno-lite, without object stores
# make wheel  the Python package segnofs, in target/wheels

.PHONY: all deb demo fmt install library manual models setup static test wheel

# Modules that a macro declares, which cargo fmt does not find.
COMMANDS := $(wildcard crates/cli/src/commands/*.rs crates/cli/src/commands/*/mod.rs)

# Two builds: in one, the program would link an engine with the laboratory's access.
all:
	cargo build --release -p segno-cli
	cargo build --release -p segno-lab

# The C library.
library:
	cargo build --release -p segno-capi

demo: setup all
	scripts/demo

# The dev profile is optimised enough for the tests, checks arithmetic and lock ranks, and builds faster than release.
test: setup
	scripts/deny
	cargo fmt --all --check -- $(COMMANDS)
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace
	cargo clippy -p segno-cli --no-default-features --all-targets -- -D warnings
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
	cargo fmt --all -- $(COMMANDS)

setup:
	@scripts/setup

# Pages and completions come from the command line's definition.
manual:
	SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" cargo run -q -p segno-lab --example manual -- "$${CARGO_TARGET_DIR:-target}/manual"

install: all library manual
	DESTDIR="$(DESTDIR)" PREFIX="$(or $(PREFIX),/usr/local)" SBINDIR="$(or $(SBINDIR),/usr/sbin)" scripts/install

deb: all library manual
	scripts/deb

static:
	scripts/static

wheel:
	scripts/wheel
