// SPDX-License-Identifier: GPL-2.0-only
//! Which benchmarks of the suites the user wants.

/// Patterns over names of benchmarks; without any, all are wanted.
///
/// A pattern is a name (`hackbench-process/8`), the part before the slash (`hackbench-process`),
/// or one of these with `*` for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    patterns: Vec<String>,
}

impl Filter {
    pub fn new<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter().map(Into::into).collect();
        Filter { patterns }
    }

    /// Whether the benchmark called `name` is wanted.
    pub fn matches(&self, name: &str) -> bool {
        let wanted = |pattern: &String| matches(pattern, name);
        self.patterns.is_empty() || self.patterns.iter().any(wanted)
    }

    /// The patterns that match none of `names`: most likely misspelt.
    pub fn unmatched<'a, T: AsRef<str>>(&'a self, names: &[T]) -> Vec<&'a str> {
        let idle = |pattern: &&String| !names.iter().any(|name| matches(pattern, name.as_ref()));
        self.patterns
            .iter()
            .filter(idle)
            .map(String::as_str)
            .collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let entry = name.split_once('/').map(|(entry, _)| entry);
    glob(pattern, name) || entry.is_some_and(|entry| glob(pattern, entry))
}

/// `*` is any text, everything else stands for itself.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Leftmost is enough: a later match leaves less for the pieces after it.
    for piece in middle.split('*') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_an_entry_or_has_stars() {
        for (pattern, name, expected) in [
            ("tbench/8", "tbench/8", true),
            ("tbench", "tbench/8", true),
            ("tbench", "tbench", true),
            ("tbench/8", "tbench/88", false),
            ("bench", "tbench/8", false),
            ("numa0*", "numa01", true),
            ("*/8", "tbench/8", true),
            ("*", "x", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("numa*_*", "numa01_THREAD_ALLOC", true),
        ] {
            assert_eq!(
                Filter::new([pattern]).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
        assert!(Filter::default().matches("anything"));
    }

    #[test]
    fn patterns_without_a_benchmark_are_found() {
        let filter = Filter::new(["pipe", "hackbnch", "numa*"]);
        assert_eq!(filter.unmatched(&["pipe", "numa01"]), ["hackbnch"]);
        assert!(Filter::default().unmatched(&["pipe"]).is_empty());
    }
}
