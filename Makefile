.DEFAULT_GOAL := help
.PHONY: help test check fmt bench doc clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Set up and run every suite, as CI does; SUITES="fmt clippy" runs only those
	@scripts/test $(SUITES)

check: ## The inner loop: formatting, lints, unit tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo test --workspace --all-features --lib

fmt: ## Format the code
	cargo fmt --all

bench: ## Run the benchmarks and print what counts, their ratios
	cargo bench -p dream-protocol --benches
	@scripts/bench-ratios
	cargo bench -p dream-gateway --benches

doc: ## Build the API documentation into target/doc
	cargo doc --workspace --no-deps

clean: ## Remove everything that was built or installed here
	cargo clean
	rm -rf .venv
