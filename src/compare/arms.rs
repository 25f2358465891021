// SPDX-License-Identifier: GPL-2.0-only
//! Arms as users write them: `eevdf`, or `NAME[:FLAGS]` with the name or path of a scheduler.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::error::ErrorKind;
use thiserror::Error;

use super::record::Arm;
use crate::cli::{Cli, DispatcherKind};
use crate::place::Place;
use crate::user::launch;

/// An arm that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArmError {
    #[error("arm '{0}': eevdf takes no flags (--numa-balancing sets what it has)")]
    EevdfFlags(String),
    #[error("arm '{arm}': {why} in its flags")]
    Flags { arm: String, why: String },
    #[error(
        "arm '{arm}': no program '{name}' (an arm is eevdf, ballast[:FLAGS], or NAME[:FLAGS] with the name or \
         path of a scheduler)"
    )]
    NoProgram { arm: String, name: String },
    #[error("arm '{0}' takes --stats or --monitor of the scheduler's own: leave it out")]
    Watching(String),
    #[error("arm '{arm}': {why}")]
    OwnFlags { arm: String, why: String },
    #[error(
        "arms '{one}' and '{other}' write their traces to one file, {}: the later one would write over the other's. \
         Name another in one of them",
        file.display()
    )]
    SameTrace {
        one: String,
        other: String,
        file: PathBuf,
    },
    #[error("--numa-balancing is about arms 'eevdf', and there is none")]
    NoEevdf,
}

/// What `--numa-balancing` makes of the arms `eevdf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NumaBalancing {
    On,
    Off,
    /// Two arms, one of each.
    Both,
}

impl NumaBalancing {
    fn settings(choice: Option<NumaBalancing>) -> &'static [Option<bool>] {
        match choice {
            None => &[None],
            Some(NumaBalancing::On) => &[Some(true)],
            Some(NumaBalancing::Off) => &[Some(false)],
            Some(NumaBalancing::Both) => &[Some(true), Some(false)],
        }
    }
}

/// All arms. One that repeats an earlier one is its twin and gets a number, and so does the twin of
/// the first that `aa` asks for. `own` is this program.
pub fn parse(
    texts: &[String],
    own: &Path,
    numa_balancing: Option<NumaBalancing>,
    aa: bool,
) -> Result<Vec<Arm>, ArmError> {
    let mut arms: Vec<Arm> = Vec::new();
    for text in texts {
        let argv = argv(text, own)?;
        let settings = match argv.is_empty() {
            true => NumaBalancing::settings(numa_balancing),
            false => &[None],
        };
        for &setting in settings {
            add(&mut arms, label(text, setting), &argv, setting);
        }
    }
    if numa_balancing.is_some() && arms.iter().all(|arm| arm.numa_balancing.is_none()) {
        return Err(ArmError::NoEevdf);
    }
    if let (true, Some(first)) = (aa, arms.first().cloned()) {
        add(&mut arms, first.label, &first.argv, first.numa_balancing);
    }
    traces_apart(&arms, own)?;
    Ok(arms)
}

/// Arms take turns, so of two that write one file only the later one's trace would remain. Within an arm the last
/// block's remains.
fn traces_apart(arms: &[Arm], own: &Path) -> Result<(), ArmError> {
    let mut traced: Vec<(Place, &Arm)> = Vec::new();
    for arm in arms {
        let Some(file) = trace(arm, own) else {
            continue;
        };
        let Some(place) = Place::of(&file) else {
            continue;
        };
        if let Some((_, one)) = traced.iter().find(|(other, _)| *other == place) {
            return Err(ArmError::SameTrace {
                one: one.label.clone(),
                other: arm.label.clone(),
                file,
            });
        }
        traced.push((place, arm));
    }
    Ok(())
}

/// Where an arm of this program writes its trace.
fn trace(arm: &Arm, own: &Path) -> Option<PathBuf> {
    let (program, _) = arm.argv.split_first()?;
    let (cli, _) = (Path::new(program) == own).then(|| Cli::parse_words(&arm.argv).ok())??;
    cli.run.trace
}

fn label(text: &str, numa_balancing: Option<bool>) -> String {
    match numa_balancing {
        None => text.to_string(),
        Some(true) => format!("{text}:numa_balancing=on"),
        Some(false) => format!("{text}:numa_balancing=off"),
    }
}

fn add(arms: &mut Vec<Arm>, wanted: String, argv: &[String], numa_balancing: Option<bool>) {
    let same = |arm: &Arm| arm.argv == argv && arm.numa_balancing == numa_balancing;
    let twin_of = arms.iter().position(same);
    let mut label = wanted.clone();
    let mut number = 2;
    while arms.iter().any(|arm| arm.label == label) {
        label = format!("{wanted}#{number}");
        number += 1;
    }
    arms.push(Arm {
        label,
        argv: argv.to_vec(),
        numa_balancing,
        twin_of,
    });
}

/// Program and arguments; none for EEVDF.
fn argv(text: &str, own: &Path) -> Result<Vec<String>, ArmError> {
    let (name, flags) = text.split_once(':').unwrap_or((text, ""));
    if name == "eevdf" {
        return match text.contains(':') {
            true => Err(ArmError::EevdfFlags(text.into())),
            false => Ok(Vec::new()),
        };
    }
    let flags = shell_words::split(flags).map_err(|error| ArmError::Flags {
        arm: text.into(),
        why: error.to_string(),
    })?;
    let program = match name {
        "ballast" | "scx_ballast" => Some(own.to_path_buf()),
        name => find(name),
    };
    let program = program.ok_or_else(|| ArmError::NoProgram {
        arm: text.into(),
        name: name.into(),
    })?;
    // A monitor loads nothing, and statistics on the terminal are work that others do not have.
    let watches = |flag: &String| flag.starts_with("--monitor") || flag.starts_with("--stats");
    if flags.iter().any(watches) {
        return Err(ArmError::Watching(text.into()));
    }
    if program == own {
        own_flags(&flags).map_err(|why| ArmError::OwnFlags {
            arm: text.into(),
            why,
        })?;
    }
    let mut argv = vec![program.to_string_lossy().into_owned()];
    argv.extend(flags);
    Ok(argv)
}

/// Whether this program would schedule with `flags`; other schedulers' flags show when they are started.
fn own_flags(flags: &[String]) -> Result<(), String> {
    let words = ["scx_ballast".to_string()];
    let (cli, given) = Cli::parse_words(words.iter().chain(flags)).map_err(|error| match error
        .kind()
    {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => "it would schedule nothing".into(),
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // How to call this program is not how to write an arm.
            let said = text.split("\n\nUsage:").next().unwrap_or(text);
            let said = said.split("\n\nFor more").next().unwrap_or(said);
            said.trim_end().to_string()
        }
    })?;
    if cli.command.is_some() || cli.run.help_stats {
        return Err("it would schedule nothing".into());
    }
    let sized = || match cli.run.dispatcher {
        DispatcherKind::Kernel => Ok(()),
        DispatcherKind::User => launch::check_size(&cli.run),
    };
    let checked = cli.check_effect(&given).and_then(|()| sized());
    checked.map_err(|error| error.to_string())
}

/// The executable file that a shell would start.
fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = match name {
        "" => None,
        name if name.contains('/') => Some(PathBuf::from(name)).filter(is_program),
        name => env::split_paths(&env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .find(is_program),
    };
    found.and_then(|path| path.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(texts: &[&str], nb: Option<NumaBalancing>, aa: bool) -> Result<Vec<Arm>, ArmError> {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        parse(&texts, Path::new("/own/scx_ballast"), nb, aa)
    }

    #[test]
    fn words_become_programs_and_arguments() {
        let made = arms(
            &["eevdf", "ballast:--rules 'v6.0'", "sh:-c \"a b\""],
            None,
            false,
        );
        let made = made.unwrap();
        assert!(made[0].argv.is_empty());
        assert_eq!(made[1].argv, ["/own/scx_ballast", "--rules", "v6.0"]);
        assert_eq!(made[1].label, "ballast:--rules 'v6.0'");
        assert!(made[2].argv[0].starts_with('/'));
        assert_eq!(made[2].argv[1..], ["-c", "a b"]);
        assert!(made.iter().all(|arm| arm.twin_of.is_none()));
    }

    #[test]
    fn flags_of_this_program_are_checked_as_it_would() {
        let error = arms(&["ballast:--slice-us x"], None, false).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "arm 'ballast:--slice-us x': invalid value 'x' for '--slice-us <USEC>'"
            ),
            "{text}"
        );
        assert!(
            !text.contains("Usage:") && !text.contains("--help"),
            "{text}"
        );
        for (flags, why) in [
            (
                "--locality off --migrate-memory",
                "--migrate-memory cannot be had with --locality off",
            ),
            (
                "--dispatcher user --sync-us 0",
                "--sync-us cannot be had with --dispatcher user",
            ),
        ] {
            let error = arms(&[&format!("ballast:{flags}")], None, false).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("arm 'ballast:{flags}': {why}: ")),
                "{text}"
            );
        }
        for taken in [
            "--slice-us 20000 --partial -vv",
            "--locality sampled --migrate-memory",
            "--dispatcher user --locality off",
        ] {
            arms(&[&format!("ballast:{taken}")], None, false).unwrap();
        }
    }

    #[test]
    fn what_comes_again_is_a_twin() {
        let made = arms(&["eevdf", "ballast", "scx_ballast", "eevdf"], None, true).unwrap();
        let told: Vec<_> = made.iter().map(|a| (&*a.label, a.twin_of)).collect();
        let expected = [
            ("eevdf", None),
            ("ballast", None),
            ("scx_ballast", Some(1)),
            ("eevdf#2", Some(0)),
            ("eevdf#3", Some(0)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn arms_do_not_write_over_each_others_traces() {
        let (slow, fast) = ("ballast:--trace t --slice-us 9000", "ballast:--trace=t");
        let told = arms(&[slow, "eevdf", fast], None, false)
            .unwrap_err()
            .to_string();
        assert_eq!(
            told,
            "arms 'ballast:--trace t --slice-us 9000' and 'ballast:--trace=t' write their traces to one file, t: the \
             later one would write over the other's. Name another in one of them"
        );
        for (texts, aa) in [(&[fast][..], true), (&[slow, "ballast:--trace ./t"], false)] {
            let same = arms(texts, None, aa).unwrap_err();
            assert!(matches!(same, ArmError::SameTrace { .. }), "{same}");
        }
        for taken in [
            [slow, "ballast:--trace u"],
            ["ballast", "eevdf"],
            [slow, "eevdf"],
            // What is no file is written to by all without loss.
            ["ballast:--trace /dev/null", "ballast:--trace=/dev/null"],
        ] {
            arms(&taken, None, false).unwrap();
        }
    }

    #[test]
    fn numa_balancing_makes_arms_of_eevdf_alone() {
        let made = arms(&["eevdf", "ballast"], Some(NumaBalancing::Both), false).unwrap();
        let told: Vec<_> = made.iter().map(|a| (&*a.label, a.numa_balancing)).collect();
        let expected = [
            ("eevdf:numa_balancing=on", Some(true)),
            ("eevdf:numa_balancing=off", Some(false)),
            ("ballast", None),
        ];
        assert_eq!(told, expected);
        let none = arms(&["ballast"], Some(NumaBalancing::On), false);
        assert_eq!(none, Err(ArmError::NoEevdf));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "eevdf:",
            "eevdf:-x",
            "no-such-scheduler",
            "/tmp",
            "sh:'x",
            "ballast:--monitor 1",
            "ballast:--no-such-flag",
            "ballast:--slice-us 0",
            "ballast:topology",
            "ballast:work hogs",
            "scx_ballast:--help",
            "ballast:--version",
            "ballast:--help-stats",
        ] {
            assert!(arms(&[text], None, false).is_err(), "{text}");
        }
    }
}
