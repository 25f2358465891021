// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's list notation for sets of CPUs and nodes: `0-3,8,10-11`.

/// Ids beyond this are taken for garbage rather than expanded.
const MAX_ID: u32 = 0xffff;

/// The ids of a list in kernel notation, ascending and without repetition.
///
/// White space and NULs around the list are ignored, an empty list is an empty set. Strides
/// (`0-31:1/2`), which the kernel accepts and never prints, are not understood.
///
/// Returns `None` if `text` is no list, a range runs backwards or an id is above 65535.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let mut ids = Vec::new();
    if text.is_empty() {
        return Some(ids);
    }
    for range in text.split(',') {
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (id(first)?, id(last)?),
            None => (id(range)?, id(range)?),
        };
        if first > last {
            return None;
        }
        ids.extend(first..=last);
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

fn id(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|&id| id <= MAX_ID)
}

/// `ids` in kernel notation; empty for an empty set. The order of `ids` does not matter.
pub fn format(ids: impl IntoIterator<Item = u32>) -> String {
    let mut ids: Vec<u32> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids.chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            [only] => only.to_string(),
            [] => String::new(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(parse("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse("7\0"), Some(vec![7]));
        assert_eq!(parse("\n"), Some(vec![]));
        assert_eq!(parse("4,0-1,1"), Some(vec![0, 1, 4]));
    }

    #[test]
    fn refuses_what_it_would_not_write() {
        for text in ["a", "3-1", "0-", "-1", "0,,1", "0-4000000000", "0-7:1/2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["", "0", "0-1", "0-3,8,10-11", "1,3,5", "0-63", "0-64,66"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(format([3, 1, 2, 2]), "1-3");
    }
}
