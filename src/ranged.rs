// SPDX-License-Identifier: GPL-2.0-only
//! Flags that take numbers of a range, which help shows: `[possible values: 100..1000000]`.
//!
//! Invariant: what help shows is made from what is checked.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::RangeInclusive;

use clap::builder::{PossibleValue, RangedI64ValueParser, RangedU64ValueParser, TypedValueParser};
use clap::{Arg, Command, Error, value_parser};

/// Parses as `parser` does, and says what that takes.
#[derive(Debug, Clone)]
pub struct Ranged<P> {
    parser: P,
    /// clap wants texts that live as long as the program. They are made once for each definition of a command line.
    shown: Vec<&'static str>,
}

/// By a function, which says what is wrong.
pub type ParsedBy<T> = Ranged<fn(&str) -> Result<T, String>>;

impl<P> Ranged<P> {
    /// For a parser that takes what is shown.
    pub fn new(parser: P, shown: impl IntoIterator<Item = String>) -> Self {
        let shown = shown.into_iter().map(|text| &*text.leak()).collect();
        Self { parser, shown }
    }
}

/// A range as help shows it, and as `--sweep` has it: both ends belong to it. Without spaces, for clap would quote it.
pub fn shown<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("{}..{}", range.start(), range.end())
}

impl<P: TypedValueParser> TypedValueParser for Ranged<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.shown.iter().map(PossibleValue::new)))
    }
}

pub fn i32_in(range: RangeInclusive<i32>) -> Ranged<RangedI64ValueParser<i32>> {
    let bounds = i64::from(*range.start())..=i64::from(*range.end());
    Ranged::new(value_parser!(i32).range(bounds), [shown(&range)])
}

pub fn u32_in(range: RangeInclusive<u32>) -> Ranged<RangedI64ValueParser<u32>> {
    let bounds = i64::from(*range.start())..=i64::from(*range.end());
    Ranged::new(value_parser!(u32).range(bounds), [shown(&range)])
}

pub fn u64_in(range: RangeInclusive<u64>) -> Ranged<RangedU64ValueParser<u64>> {
    Ranged::new(value_parser!(u64).range(range.clone()), [shown(&range)])
}
