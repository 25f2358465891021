// SPDX-License-Identifier: GPL-2.0-only
//! Flags that take numbers of a range, which help shows: `[possible values: 100..1000000]`.
//!
//! Invariant: what help shows is made from what is checked.

use std::ffi::OsStr;
use std::fmt::Display;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

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

/// A whole number of the range, which a number that is too large for any type is not either.
fn whole<T: TryFrom<i128> + Clone + Send + Sync + 'static>(
    range: RangeInclusive<i128>,
) -> Ranged<impl TypedValueParser<Value = T>> {
    let shown = shown(&range);
    let parse = move |text: String| {
        let outside = || format!("{text} is not in {range:?}");
        match text.parse::<i128>() {
            Ok(number) if range.contains(&number) => number.try_into().map_err(|_| outside()),
            Ok(_) => Err(outside()),
            Err(error) => Err(match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => outside(),
                _ => error.to_string(),
            }),
        }
    };
    Ranged::new(StringValueParser::new().try_map(parse), [shown])
}

pub fn i32_in(range: RangeInclusive<i32>) -> Ranged<impl TypedValueParser<Value = i32>> {
    whole(i128::from(*range.start())..=i128::from(*range.end()))
}

pub fn u32_in(range: RangeInclusive<u32>) -> Ranged<impl TypedValueParser<Value = u32>> {
    whole(i128::from(*range.start())..=i128::from(*range.end()))
}

pub fn u64_in(range: RangeInclusive<u64>) -> Ranged<impl TypedValueParser<Value = u64>> {
    whole(i128::from(*range.start())..=i128::from(*range.end()))
}
