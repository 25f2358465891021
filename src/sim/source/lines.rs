// SPDX-License-Identifier: GPL-2.0-only
//! Lines of a workload file as words, and what can be wrong with one.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::sim::program::Name;

/// What is wrong, in which line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct FileError {
    /// From 1.
    pub line: usize,
    pub what: String,
}

/// A line that says something: its first word and the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub number: usize,
    pub word: &'a str,
    rest: &'a str,
}

/// The lines of a text, without comments, what is empty, and the mark that some editors put at the start (BOM).
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().zip(1..).filter_map(|(line, number)| {
        let said = line.split('#').next().unwrap_or_default().trim();
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        (!word.is_empty()).then_some(Line { number, word, rest })
    })
}

impl<'a> Line<'a> {
    pub fn error(&self, what: impl Into<String>) -> FileError {
        FileError {
            line: self.number,
            what: what.into(),
        }
    }

    /// What this line declares.
    pub fn named(&self, name: &str) -> Name {
        Name {
            text: name.to_owned(),
            line: self.number,
        }
    }

    /// The words after the first, between `least` and `most` of them; `usage` says which.
    pub fn words(&self, least: usize, most: usize, usage: &str) -> Result<Vec<&'a str>, FileError> {
        let words: Vec<&str> = self.rest.split_whitespace().collect();
        match (least..=most).contains(&words.len()) {
            true => Ok(words),
            false => {
                let got = format!("{} {}", self.word, self.rest);
                Err(self.error(format!("expected `{usage}`, got `{}`", got.trim())))
            }
        }
    }

    /// Exactly so many.
    pub fn exactly<const N: usize>(&self, usage: &str) -> Result<[&'a str; N], FileError> {
        let words = self.words(N, N, usage)?;
        // The number was just checked.
        words.try_into().map_err(|_| self.error(usage))
    }

    /// A whole number in a range.
    pub fn number(&self, text: &str, least: u64, most: u64) -> Result<u64, FileError> {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| {
            self.error(format!(
                "expected a number from {least} to {most}, got '{text}'"
            ))
        })
    }

    /// A time in ns: a whole number and its unit.
    pub fn time(&self, text: &str) -> Result<u64, FileError> {
        const UNITS: [(&str, u64); 4] = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ];
        /// Longer than any run.
        const MOST: u64 = 1_000_000 * 1_000_000_000;
        let digits = text.trim_end_matches(char::is_alphabetic);
        let unit = UNITS.iter().find(|unit| unit.0 == &text[digits.len()..]);
        let time = unit.and_then(|unit| digits.parse::<u64>().ok()?.checked_mul(unit.1));
        time.filter(|&time| time <= MOST).ok_or_else(|| {
            self.error(format!(
                "expected a time such as 20ms (units are ns, us, ms, s; at most 1000000s), got '{text}'"
            ))
        })
    }

    /// A share in millionths: percent, to a tenth.
    pub fn share(&self, text: &str) -> Result<u64, FileError> {
        let share = text.strip_suffix('%').and_then(|digits| {
            let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
            let tenths = tenths.parse::<u64>().ok().filter(|_| tenths.len() == 1)?;
            let whole = whole.parse::<u64>().ok().filter(|&whole| whole <= 100)?;
            Some(whole * 10_000 + tenths * 1000)
        });
        share.filter(|&share| share <= 1_000_000).ok_or_else(|| {
            let what = format!("expected a share from 0% to 100%, such as 74.1%, got '{text}'");
            self.error(what)
        })
    }
}

/// Names of one kind of thing, and their numbers.
#[derive(Debug)]
pub(super) struct Names<'a> {
    what: &'static str,
    /// With the line of the declaration.
    known: BTreeMap<&'a str, (usize, usize)>,
}

impl<'a> Names<'a> {
    pub fn of(what: &'static str) -> Self {
        Self {
            what,
            known: BTreeMap::new(),
        }
    }

    pub fn declare(&mut self, line: &Line<'_>, name: &'a str, at: usize) -> Result<(), FileError> {
        match self.known.insert(name, (at, line.number)) {
            None => Ok(()),
            Some((_, before)) => Err(line.error(format!(
                "{} '{name}' is already there, in line {before}",
                self.what
            ))),
        }
    }

    pub fn find(&self, line: &Line<'_>, name: &str) -> Result<usize, FileError> {
        let found = self.known.get(name).map(|&(at, _)| at);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.known.keys().copied().collect();
            let known = match known[..] {
                [] => "there is none".to_owned(),
                _ => format!("there are {}", known.join(", ")),
            };
            line.error(format!("there is no {} '{name}'; {known}", self.what))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line<'_> {
        lines(text).next().expect("a line")
    }

    #[test]
    fn comments_and_blanks_say_nothing() {
        let text = "\u{feff}\n# all of it\n  fork  a\t3 # three\n\nend";
        let said: Vec<(usize, &str)> = lines(text).map(|line| (line.number, line.word)).collect();
        assert_eq!(said, [(3, "fork"), (5, "end")]);
        assert_eq!(line(text).words(1, 3, "").unwrap(), ["a", "3"]);
    }

    #[test]
    fn times_have_units() {
        let line = line("sleep");
        for (text, ns) in [("0s", 0), ("20ms", 20_000_000), ("3us", 3_000), ("7ns", 7)] {
            assert_eq!(line.time(text), Ok(ns));
        }
        for text in [
            "20",
            "ms",
            "1.5s",
            "-1s",
            "20 ms",
            "3m",
            "1000001s",
            "99999999999999999999s",
        ] {
            let error = line.time(text).unwrap_err().to_string();
            assert!(
                error.contains(text) && error.starts_with("line 1: "),
                "{error}"
            );
        }
    }

    #[test]
    fn shares_are_percent() {
        let line = line("touch");
        assert_eq!(line.share("70%"), Ok(700_000));
        assert_eq!(line.share("74.1%"), Ok(741_000));
        for text in [
            "70", "101%", "%", "x%", "100.1%", "7.%", ".5%", "7.25%", "7.+1%",
        ] {
            assert!(line.share(text).is_err(), "{text}");
        }
    }
}
