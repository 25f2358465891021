// SPDX-License-Identifier: GPL-2.0-only
//! Builds the BPF side: finds a clang, compiles src/bpf/main.bpf.c on the headers that scx_cargo
//! ships, generates the skeleton, binds the structures that both sides share, and compiles the
//! helper-free rules for the host so that tests can compare them with the Rust ones. The program that
//! counts migrations for `compare`, the one that the user dispatcher asks about tasks, and the one with which a test
//! reads the kernel's own scheduling domains, are built likewise.
//!
//! scx_cargo's BpfBuilder gives every object and skeleton one fixed name; a second BPF program of
//! this crate would overwrite the first. Hence only its headers and flags are used.
//!
//! The BPF part of the user dispatcher is scx_rustland_core's, and its builder writes into the current
//! directory and into OUT_DIR, and tells cargo to watch files that it has written itself. So it gets a folder
//! and an OUT_DIR of its own, in a second process of this build script, whose output is kept from cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;

/// Oldest clang that scx_cargo's flags (-mcpu=v4) work with.
const MIN_CLANG: u32 = 18;

fn clang_major(clang: &str) -> Option<u32> {
    let out = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8(out.stdout)
        .ok()?
        .split('.')
        .next()?
        .trim()
        .parse()
        .ok()
}

/// The clang to use: BPF_CLANG if it is usable, else the newest installed one.
fn find_clang() -> Result<String> {
    let named = env::var("BPF_CLANG").ok();
    let known = (MIN_CLANG..=MIN_CLANG + 8)
        .rev()
        .map(|v| format!("clang-{v}"));
    for clang in named.into_iter().chain(known).chain(["clang".to_string()]) {
        if clang_major(&clang).is_some_and(|major| major >= MIN_CLANG) {
            return Ok(clang);
        }
    }
    bail!(
        "no clang >= {MIN_CLANG} found; install one, for example: apt-get install clang-19 libclang-19-dev"
    )
}

/// Compiler flags for BPF. BpfBuilder::new() is what unpacks the headers into OUT_DIR.
fn bpf_flags(out: &Path) -> Result<Vec<String>> {
    scx_cargo::BpfBuilder::new().context("unpacking the headers of scx_cargo")?;
    let clang = scx_cargo::ClangInfo::new()?;
    let headers = out.join("scx_utils-bpf_h");
    let arch = clang.kernel_target()?;
    let mut flags = clang.determine_base_cflags()?;
    for dir in [
        headers.join("arch").join(&arch),
        headers.clone(),
        headers.join("bpf-compat"),
    ] {
        flags.push(format!("-I{}", dir.display()));
    }
    flags.push(format!("-D__SCX_TARGET_ARCH_{arch}"));
    Ok(flags)
}

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    out.status
        .success()
        .then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

/// The `-g<sha>[-dirty]` part of the version; empty outside a git checkout.
fn git_version() -> String {
    let Some(sha) = git(&["rev-parse", "--short=8", "HEAD"]) else {
        return String::new();
    };
    let dirty = git(&["status", "--porcelain", "-uno"]).is_some_and(|s| !s.is_empty());
    format!("-g{sha}{}", if dirty { "-dirty" } else { "" })
}

/// The argument that makes this build script the second process.
const RUSTLAND: &str = "scx_rustland_core";

/// In the second process: the current directory and OUT_DIR are made for this.
fn generate_rustland() -> Result<()> {
    scx_rustland_core::RustLandBuilder::new()?.build()
}

/// Everything that scx_rustland_core generates, into `rustland` below OUT_DIR: `bpf.rs`, `bpf_skel.rs` and
/// `bpf_intf.rs`.
fn build_rustland(out: &Path, clang: &str) -> Result<()> {
    let folder = out.join("rustland");
    // It writes its connector to src/bpf.rs.
    std::fs::create_dir_all(folder.join("src"))?;
    let done = Command::new(env::current_exe()?)
        .arg(RUSTLAND)
        .current_dir(&folder)
        .env("OUT_DIR", &folder)
        .env("BPF_CLANG", clang)
        .output()
        .context("running the build script again")?;
    if !done.status.success() {
        bail!(
            "building the BPF part of scx_rustland_core: {}\n{}{}",
            done.status,
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
    }
    std::fs::rename(folder.join("src/bpf.rs"), folder.join("bpf.rs"))?;
    Ok(())
}

fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some(RUSTLAND) {
        return generate_rustland();
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=tests/in_lab/oracle/domains.bpf.c");
    // Where git keeps them: in a linked worktree not below .git, and what is missing is built again each time.
    for file in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    println!("cargo:rustc-env=BALLAST_GIT_VERSION={}", git_version());
    println!("cargo:rustc-env=BALLAST_TARGET={}", env::var("TARGET")?);

    let clang = find_clang()?;
    // SAFETY: a build script has one thread; scx_cargo reads the variable below.
    unsafe { env::set_var("BPF_CLANG", &clang) };
    let mut flags = bpf_flags(&out)?;
    flags.push("-Werror".into());
    for (source, name) in [
        ("src/bpf/main.bpf.c", "ballast"),
        ("src/bpf/migrations.bpf.c", "migrations"),
        ("src/bpf/facts.bpf.c", "facts"),
        ("tests/in_lab/oracle/domains.bpf.c", "oracle"),
    ] {
        SkeletonBuilder::new()
            .source(source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args(&flags)
            .build_and_generate(out.join(format!("{name}_skel.rs")))
            .with_context(|| format!("building {source}"))?;
    }

    build_rustland(&out, &clang)?;

    bindgen::Builder::default()
        .header("src/bpf/intf.h")
        .derive_default(true)
        .allowlist_file(".*intf\\.h")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate()
        .context("binding src/bpf/intf.h")?
        .write_to_file(out.join("intf.rs"))?;

    cc::Build::new()
        .file("src/bpf/rules_host.c")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .opt_level(2)
        .compile("ballast_rules");
    Ok(())
}
