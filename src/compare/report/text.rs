// SPDX-License-Identifier: GPL-2.0-only
//! A report for a terminal: plain text in a given number of columns.
//!
//! A table that is too wide has its labels shortened as long as they stay apart, and is split into groups
//! of arms else, each with the labels again; what is cut off stands in full elsewhere in the report.

use std::collections::BTreeSet;

use super::content::{Block, Cell, Row, Table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Space between columns.
const GAP: usize = 2;
/// No label is made shorter than this.
const SHORTEST: usize = 14;

pub fn render(blocks: &[Block], width: usize) -> String {
    let width = width.max(40);
    let mut lines: Vec<String> = Vec::new();
    let mut after_verdict = false;
    for block in blocks {
        let is_verdict = matches!(block, Block::Verdict(_));
        let stays_close = after_verdict && is_verdict;
        if !lines.is_empty() && !stays_close && !follows_heading(&lines) {
            lines.push(String::new());
        }
        after_verdict = is_verdict;
        lines.extend(block_lines(block, width));
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn follows_heading(lines: &[String]) -> bool {
    lines
        .last()
        .is_some_and(|line| !line.is_empty() && line.chars().all(|c| c == '-' || c == '='))
}

fn block_lines(block: &Block, width: usize) -> Vec<String> {
    match block {
        Block::Title(title) => underlined(title, '=', width),
        Block::Heading(heading) => underlined(heading, '-', width),
        Block::Paragraph(text) => wrap(text, width, ""),
        Block::Warning(text) => wrap(&format!("WARNING: {text}"), width, "         "),
        Block::Verdict(text) => wrap(text, width, "    "),
        Block::List(lines) => {
            let lines = lines.iter();
            lines
                .flat_map(|line| wrap(&format!("- {line}"), width, "  "))
                .collect()
        }
        Block::Table(table) => table_lines(table, width),
    }
}

fn underlined(text: &str, with: char, width: usize) -> Vec<String> {
    let mut lines = wrap(text, width, "");
    let longest = lines.iter().map(|line| line.width()).max().unwrap_or(0);
    lines.push(String::from(with).repeat(longest));
    lines
}

fn table_lines(table: &Table, width: usize) -> Vec<String> {
    let mut widths = natural_widths(table);
    shorten_labels(&mut widths, table, width);
    let groups = groups(&widths, table, width);
    let mut lines = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        if at > 0 {
            lines.push(String::new());
        }
        let head: Vec<Cell> = table.head.iter().map(Cell::new).collect();
        lines.extend(row_lines(&head, group, &widths, table, width));
        for row in &table.rows {
            match row {
                Row::Cells(cells) => lines.extend(row_lines(cells, group, &widths, table, width)),
                Row::Span(text) => lines.extend(wrap(text, width, "")),
            }
        }
    }
    lines
}

fn natural_widths(table: &Table) -> Vec<usize> {
    let head = table.head.iter().enumerate();
    let mut widths: Vec<usize> = head
        .map(|(column, text)| text.width() + indent(table, column))
        .collect();
    for row in &table.rows {
        if let Row::Cells(cells) = row {
            for (column, (width, cell)) in widths.iter_mut().zip(cells).enumerate() {
                let indent = indent(table, column);
                *width = (*width).max(cell.text.width() + indent);
            }
        }
    }
    widths
}

/// Rows under a heading within the table stand further right, where every row is under one.
fn indent(table: &Table, column: usize) -> usize {
    match table.rows.first() {
        Some(Row::Span(_)) if column == 0 => 2,
        _ => 0,
    }
}

/// Takes from the widest label column, and from headings longer than what is below them, what the table
/// is too wide by.
fn shorten_labels(widths: &mut [usize], table: &Table, width: usize) {
    if table.prose {
        let last = widths.len().saturating_sub(1);
        for label in &mut widths[..last] {
            *label = (*label).min(width / 3);
        }
        let labels: usize = widths[..last].iter().map(|width| width + GAP).sum();
        if let Some(prose) = widths.last_mut() {
            *prose = (*prose).min(width.saturating_sub(labels)).max(SHORTEST);
        }
        return;
    }
    for (column, width) in widths.iter_mut().enumerate().skip(table.labels) {
        *width = (*width).min(longest_cell(table, column).max(SHORTEST));
    }
    let labels = table.labels.min(widths.len());
    let cap = (width * 2 / 5).max(SHORTEST);
    while widths[..labels]
        .iter()
        .map(|width| width + GAP)
        .sum::<usize>()
        > cap + GAP
    {
        match widths[..labels].iter_mut().max() {
            Some(widest) if *widest > SHORTEST => *widest -= 1,
            _ => return,
        }
    }
    // What is left is taken at once, if that saves the table from being split and labels stay apart.
    let excess = total(widths).saturating_sub(width);
    let Some(widest) = (0..labels).max_by_key(|column| widths[*column]) else {
        return;
    };
    let wanted = widths[widest].saturating_sub(excess);
    if excess > 0 && wanted >= SHORTEST && stay_apart(table, widest, widths[widest], wanted) {
        widths[widest] = wanted;
    }
}

/// Whether the labels of a column that differ in `from` columns still do in `to`.
fn stay_apart(table: &Table, column: usize, from: usize, to: usize) -> bool {
    let different = |width: usize| {
        let width = width.saturating_sub(indent(table, column));
        let rows = table.rows.iter();
        let labels: BTreeSet<String> = rows
            .filter_map(|row| match row {
                Row::Cells(cells) => cells.get(column).map(|cell| shorten(&cell.text, width)),
                Row::Span(_) => None,
            })
            .collect();
        labels.len()
    };
    different(to) == different(from)
}

fn longest_cell(table: &Table, column: usize) -> usize {
    let rows = table.rows.iter();
    rows.filter_map(|row| match row {
        Row::Cells(cells) => cells.get(column).map(|cell| cell.text.width()),
        Row::Span(_) => None,
    })
    .max()
    .unwrap_or(0)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Columns of each part of a table that has to be split: as many as fit beside the labels.
fn groups(widths: &[usize], table: &Table, width: usize) -> Vec<Vec<usize>> {
    let labels: Vec<usize> = (0..table.labels.min(widths.len())).collect();
    if table.prose {
        return vec![(0..widths.len()).collect()];
    }
    let used: usize = labels.iter().map(|column| widths[*column] + GAP).sum();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut free = 0;
    for (column, wide) in widths.iter().enumerate().skip(labels.len()) {
        if groups.is_empty() || free < wide + GAP {
            groups.push(labels.clone());
            free = (width + GAP).saturating_sub(used);
        }
        if let Some(group) = groups.last_mut() {
            group.push(column);
        }
        free = free.saturating_sub(wide + GAP);
    }
    if groups.is_empty() {
        groups.push(labels);
    }
    groups
}

fn row_lines(
    cells: &[Cell],
    group: &[usize],
    widths: &[usize],
    table: &Table,
    width: usize,
) -> Vec<String> {
    let mut line = String::new();
    for (at, column) in group.iter().enumerate() {
        let (Some(cell), Some(wide)) = (cells.get(*column), widths.get(*column)) else {
            continue;
        };
        if at > 0 {
            line.push_str("  ");
        }
        if table.prose && *column + 1 == widths.len() {
            let before = " ".repeat(line.width());
            let room = width.saturating_sub(before.len()).max(SHORTEST);
            let mut lines = wrap(&cell.text, room, "").into_iter();
            line += &lines.next().unwrap_or_default();
            let more = lines.map(|text| format!("{before}{text}"));
            return std::iter::once(line).chain(more).collect();
        }
        let indent = indent(table, *column);
        let text = shorten(&cell.text, wide.saturating_sub(indent));
        let space = " ".repeat(wide.saturating_sub(text.width() + indent));
        let indent = " ".repeat(indent);
        line += &match *column < table.labels {
            true => format!("{indent}{text}{space}"),
            false => format!("{space}{text}"),
        };
    }
    vec![line]
}

/// `text` in at most `width` columns: its middle gives way, as both ends tell names apart.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = take(text.chars(), room.div_ceil(2));
    let tail: String = take(text.chars().rev(), room / 2).chars().rev().collect();
    format!("{head}…{tail}")
}

fn take(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

/// `text` in lines of at most `width` columns, all but the first after `indent`.
fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut is_fresh = true;
    for mut word in text.split_whitespace() {
        loop {
            let gap = usize::from(!is_fresh);
            let room = width.saturating_sub(used + gap);
            // No more of the word is looked at than a line holds: a long one would be measured for each line.
            let fitting = fitting(word, room);
            if fitting == word.len() {
                line += &" ".repeat(gap);
                line += word;
                used += gap + word.width();
                is_fresh = false;
                break;
            }
            if is_fresh {
                // A word longer than a line is broken; at least one character goes, so this ends.
                let first = word.chars().next().map_or(0, char::len_utf8);
                let (part, rest) = word.split_at(fitting.max(first));
                line += part;
                word = rest;
            }
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            used = indent.width();
            is_fresh = true;
        }
    }
    lines.push(line);
    lines
}

/// How many bytes of `text` are in at most `width` columns.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let mut chars = text.char_indices();
    let beyond = chars.find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_gives_way() {
        assert_eq!(shorten("scx_rusty:--slice-us 20000", 12), "scx_ru…20000");
        assert_eq!(shorten("short", 12), "short");
        assert!(shorten("日本日本日本日本", 7).width() <= 7);
    }

    #[test]
    fn no_line_is_too_long() {
        let text = "a word and averyveryverylongwordthatdoesnotfit anywhere";
        for line in wrap(text, 12, "  ") {
            assert!(line.width() <= 12, "{line:?}");
        }
        let joined: String = wrap(text, 12, "  ").concat().replace(' ', "");
        assert_eq!(joined, text.replace(' ', ""));
    }

    #[test]
    fn a_megabyte_is_wrapped_in_no_time() {
        let began = std::time::Instant::now();
        let text = "x".repeat(1 << 20);
        let lines = wrap(&text, 80, "  ");
        assert_eq!(lines.len(), (text.len() - 80).div_ceil(78) + 1);
        assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    }

    #[test]
    fn wide_tables_are_split_and_keep_their_labels() {
        let mut table = Table::new(1, ["what", "one", "two", "three"]);
        table.row(
            [
                "label",
                "1111111111111111",
                "2222222222222222",
                "3333333333333333",
            ]
            .map(Cell::new),
        );
        let text = render(&[Block::Table(table)], 44);
        assert_eq!(text.matches("label").count(), 2, "{text}");
        for digit in ["1111", "2222", "3333"] {
            assert!(text.contains(digit), "{text}");
        }
        assert!(text.lines().all(|line| line.width() <= 44), "{text}");
    }
}
