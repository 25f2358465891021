// SPDX-License-Identifier: GPL-2.0-only
//! What a report is made of. Sections are built of these once; each format writes them in its way.

use crate::compare::analysis::{brief, cut};

/// A piece of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Title(String),
    Heading(String),
    Paragraph(String),
    /// What a reader has to know before the numbers.
    Warning(String),
    List(Vec<String>),
    Table(Table),
    /// An arm's result in plain words.
    Verdict(String),
}

/// A table. Every row is as long as `head`, or is a heading within the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Row>,
    /// Columns that say what a row is; they stand on the left and are repeated where a table is split.
    pub labels: usize,
    /// The last column is prose that may go over several lines.
    pub prose: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Cells(Vec<Cell>),
    /// Over the whole width: what the rows below are about.
    Span(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
}

/// What a cell says, for formats with colours; never said by the colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Better,
    Worse,
    /// Nothing there, or nothing that matters.
    Faint,
}

impl Cell {
    pub fn new(text: impl AsRef<str>) -> Self {
        Cell {
            text: clean(text.as_ref()),
            tone: Tone::Plain,
        }
    }

    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    pub fn faint(text: impl AsRef<str>) -> Self {
        Cell::new(text).tone(Tone::Faint)
    }
}

impl Table {
    /// A table of which the first `labels` columns say what a row is.
    pub fn new<S: AsRef<str>>(labels: usize, head: impl IntoIterator<Item = S>) -> Self {
        Table {
            head: head.into_iter().map(|text| clean(text.as_ref())).collect(),
            rows: Vec::new(),
            labels,
            prose: false,
        }
    }

    /// Says that the last column is prose.
    pub fn with_prose(mut self) -> Self {
        self.prose = true;
        self
    }

    /// Adds a row; what is missing at its end stays empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().take(self.head.len()).collect();
        cells.resize(self.head.len(), Cell::new(""));
        self.rows.push(Row::Cells(cells));
    }

    pub fn span(&mut self, text: impl AsRef<str>) {
        self.rows.push(Row::Span(clean(text.as_ref())));
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Characters that a text from outside may have; boot lines and lists of CPUs have the most.
const LONGEST: usize = 4000;

/// A name or a reason as [`clean`] makes it, and short.
pub fn clean_brief(text: &str) -> String {
    clean(&brief(text))
}

/// `text` in one line, with its middle left out where it is endless, and without characters that a terminal obeys or that turn the text around it: each
/// is shown as its escape, `\u{1b}`.
pub fn clean(text: &str) -> String {
    let text = cut(text, LONGEST);
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => cleaned.push(' '),
            c if c.is_control() || is_invisible(c) => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// Zero width, direction marks and overrides, separators, and what is no character at all.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}')
        || (c as u32) & 0xfffe == 0xfffe
        || matches!(c as u32, 0xfdd0..=0xfdef)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_no_orders() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb c");
        assert_eq!(clean("x\u{202e}y\u{0}\u{9b}"), "x\\u{202e}y\\u{0}\\u{9b}");
        assert_eq!(clean("µs 日本 <b>"), "µs 日本 <b>");
    }

    #[test]
    fn rows_are_as_long_as_the_head() {
        let mut table = Table::new(1, ["a", "b"]);
        table.row([Cell::new("1")]);
        table.row(["1", "2", "3"].map(Cell::new));
        for row in &table.rows {
            assert!(matches!(row, Row::Cells(cells) if cells.len() == 2));
        }
    }
}
