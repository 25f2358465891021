// SPDX-License-Identifier: GPL-2.0-only
//! Names and reasons come from outside, in any length; what is said of them fits into a few lines.

/// Characters that a name or a reason may have.
const LONGEST: usize = 300;

/// The first line of `text`, its middle left out where it is long. Looks at no more than it shows, but for
/// where the line ends.
pub fn brief(text: &str) -> String {
    cut(text.lines().next().unwrap_or_default(), LONGEST)
}

/// `text` with at most `longest` characters: its middle gives way, as both ends tell names apart.
pub fn cut(text: &str, longest: usize) -> String {
    if text.char_indices().nth(longest).is_none() {
        return text.to_owned();
    }
    let room = longest.saturating_sub(1);
    let head = text.char_indices().nth(room.div_ceil(2));
    let tail = text.char_indices().rev().take(room / 2).last();
    let head = head.map_or(text, |(at, _)| &text[..at]);
    let tail = tail.map_or("", |(at, _)| &text[at..]);
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_first_line_gives_way() {
        assert_eq!(cut("0123456789", 10), "0123456789");
        assert_eq!(cut("0123456789a", 10), "01234…789a");
        assert_eq!(cut("日本日本日本", 3), "日…本");
        assert_eq!(cut("ab", 1), "…");
        let long = format!("{}\nmore", "x".repeat(1000));
        assert_eq!(brief(&long).chars().count(), LONGEST);
        assert_eq!(brief("why\nbecause"), "why");
        assert_eq!(brief(""), "");
    }
}
