// SPDX-License-Identifier: GPL-2.0-only
//! The end of what a program printed, for reasons that people read and results files keep.
//!
//! It is never more than [`LINES`] lines and [`CHARS`] characters, whatever was printed: lines can be as
//! long as outputs. What a terminal would obey (colours, control characters) is left out.

/// Lines that are kept.
pub const LINES: usize = 10;
/// Characters that are kept.
pub const CHARS: usize = 1000;

/// The end of `text`; nothing if it has no text. An ellipsis stands for what was cut off a line.
pub fn of(text: &str) -> Option<String> {
    let text = text.trim_end();
    // Colours take room that is not counted.
    let (end, much) = last(text, 4 * CHARS);
    let plain = console::strip_ansi_codes(end);
    let visible: String = plain.chars().filter(|&c| is_shown(c)).collect();
    let (kept, more) = last(&visible, CHARS);
    let cut = much || more;
    let lines: Vec<&str> = kept.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let begins_cut = cut && shown.len() == lines.len();
    let ellipsis = if begins_cut { "…" } else { "" };
    (!shown.is_empty()).then(|| format!("{ellipsis}{}", shown.join("\n")))
}

/// The beginning of `text`, in a line, for values in messages.
pub fn beginning(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// The last `most` characters, and whether that is less than all.
fn last(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().rev().nth(most - 1) {
        None | Some((0, _)) => (text, false),
        Some((at, _)) => (&text[at..], true),
    }
}

fn is_shown(c: char) -> bool {
    !c.is_control() || c == '\t' || c == '\n'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_characters_are_limited() {
        assert_eq!(of(""), None);
        assert_eq!(of(" \n\n"), None);
        assert_eq!(of("a\nb\n").unwrap(), "a\nb");
        let lines: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        assert_eq!(of(&lines.join("\n")).unwrap(), lines[20..].join("\n"));
        let long = of(&format!("{}é", "x".repeat(5_000_000))).unwrap();
        assert_eq!(long.chars().count(), CHARS + 1);
        assert!(long.starts_with("…x") && long.ends_with('é'));
        let exact = "é".repeat(CHARS);
        assert_eq!(of(&exact).unwrap(), exact);
        // The cut is in a line that is not shown.
        let deep = format!("{}\n{}", "x".repeat(CHARS), lines[..LINES].join("\n"));
        assert_eq!(of(&deep).unwrap(), lines[..LINES].join("\n"));
    }

    #[test]
    fn terminals_have_nothing_to_obey() {
        assert_eq!(of("\u{1b}[31mred\u{1b}[0m\r\u{7}\tx").unwrap(), "red\tx");
    }

    #[test]
    fn values_are_cut_at_their_end() {
        assert_eq!(beginning("12x"), "12x");
        assert_eq!(beginning(&"1".repeat(1 << 20)), "1".repeat(100) + "…");
    }
}
