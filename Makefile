.DEFAULT_GOAL := help
.PHONY: help setup test check long chaos fuzz embedded study chart fmt bench doc clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the test suites need
	@scripts/test --setup

test: ## Set up and run every suite, as CI does; SUITES="fmt clippy" runs only those
	@scripts/test $(SUITES)

check: ## The inner loop: formatting, lints, unit tests and tests in virtual time, with fewer simulated runs than `make test`
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	DREAM_SIM_RUNS=10 cargo nextest run --workspace --profile check

chaos: ## The long version of the chaos test: SLOTS=200, SEED=2026
	cargo test --workspace --tests --no-run
	DREAM_CHAOS_SLOTS=$(or $(SLOTS),200) DREAM_CHAOS_SEED=$(or $(SEED),2026) \
		cargo test --workspace --test brokers -- chaos --nocapture

fuzz: ## Fuzz every decoder and both machines, SECONDS=60 each
	@scripts/fuzz $(or $(SECONDS),60)

embedded: ## Run the meter's test vectors on a Cortex-M3 in QEMU, and print what a meter takes of flash and RAM
	@scripts/embedded

long: chaos fuzz ## What has only a short case in `make test`, at full size: chaos, fuzzing, simulation, brokers, committees, meters, audit, study, the version before
	DREAM_SIM_RUNS=2000 cargo test --workspace --test protocol -- simulation:: offenders:: committee::
	DREAM_INTEROP_SLOTS=10 cargo test --workspace --test brokers -- interop
	DREAM_COMMITTEE_METERS=1000 DREAM_COMMITTEE_SLOTS=50 cargo test --workspace --test brokers -- committee --nocapture
	DREAM_METER_SLOTS=50 cargo test --workspace --test brokers -- community
	DREAM_JOIN_HOMES=25 cargo test --workspace --test brokers -- readme
	DREAM_AUDIT_FULL=1 cargo test --workspace --test audit
	DREAM_STUDY_HOMES=3000 cargo test --workspace --test cli -- the_whole_study
	scripts/with-before
	DREAM_BANDS_FULL='flat house electric-heat pv' cargo test --workspace --lib -- every_bar_holds_in_the_whole_study

study: ## Run the study for 3,000 homes, whose results docs/study.md shows
	cargo run --release -p dream-meter-sim -- study --out target/study

chart: ## Write a chart repository into target/charts, for any web server
	@scripts/chart-repository

fmt: ## Format the code
	cargo fmt --all

bench: ## Run the benchmarks and print what counts, their ratios
	cargo bench -p dream-protocol --benches
	@scripts/bench-ratios
	cargo bench -p dream-gateway --benches
	cargo bench -p dream-homes --benches
	cargo run --release -p dream-meter-sim -- demo --real-time --clusters 10 --meters 200 --slot-seconds 5 --slots 12 --faults 0

doc: ## Build the API documentation into target/doc
	cargo doc --workspace --no-deps

clean: ## Remove everything that was built or installed here
	cargo clean
	rm -rf .venv
