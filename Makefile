# SPDX-License-Identifier: GPL-2.0-only
# What there is to do here, as `make TARGET`. Everything real is in scripts: see tests/lab.

SHELL := /bin/bash
# Where cargo is when a shell has not been told.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help demo setup build test bench lab soak clean

help:
	@echo 'make demo    see it work: a lab machine, a fork burst and hackbench under EEVDF and scx_ballast'
	@echo 'make setup   install what build and lab need (Debian 12 or newer, as root); done by the others too'
	@echo 'make build   target/release/scx_ballast and scx_ballast_user'
	@echo 'make test    all tests that a change has to pass; three quarters of an hour on two cores'
	@echo 'make bench   time the policy alone: a balancing tick and a fork placement; two minutes on a quiet machine'
	@echo 'make lab     the in-lab tests on every kernel and machine; hours'
	@echo 'make soak    the in-lab tests for long: storms, stops, hotplug; hours'
	@echo 'make clean   remove what was built here; the cache of the lab stays'

demo:
	tests/lab/demo

setup:
	tests/lab/setup

build:
	tests/lab/setup build
	cargo build --release --bins

test:
	tests/lab/setup build lab kernels 6.12 7.3 debian-6.18
	tests/lab/tier test

bench:
	tests/lab/setup build
	cargo bench --bench policy

lab:
	tests/lab/setup
	tests/lab/tier lab

soak:
	tests/lab/setup build lab kernels 6.12 7.3
	tests/lab/tier soak

clean:
	cargo clean
