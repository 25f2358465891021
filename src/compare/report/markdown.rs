// SPDX-License-Identifier: GPL-2.0-only
//! A report as Markdown, with tables as GitHub and most others know them.

use std::fmt::Write as _;

use super::content::{Block, Cell, Row, Table, Tone};

pub fn render(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        write(&mut text, block);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

// Writing to a String cannot fail: the results of write! are dropped here and below.
fn write(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Title(title) => writeln!(text, "# {}\n", escape(title)),
        Block::Heading(heading) => writeln!(text, "## {}\n", escape(heading)),
        Block::Paragraph(paragraph) => writeln!(text, "{}\n", escape(paragraph)),
        Block::Warning(warning) => writeln!(text, "> **Warning:** {}\n", escape(warning)),
        Block::Verdict(verdict) => writeln!(text, "**{}**\n", escape(verdict)),
        Block::List(lines) => {
            for line in lines {
                let _ = writeln!(text, "- {}", escape(line));
            }
            writeln!(text)
        }
        Block::Table(table) => {
            write_table(text, table);
            writeln!(text)
        }
    };
}

fn write_table(text: &mut String, table: &Table) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    *text += &line(table.head.iter().map(|head| escape(head)).collect());
    let rules = (0..table.head.len()).map(|column| {
        let is_left = column < table.labels || table.prose;
        if is_left { "---" } else { "---:" }.to_owned()
    });
    *text += &line(rules.collect());
    for row in &table.rows {
        *text += &match row {
            Row::Cells(cells) => line(cells.iter().map(cell).collect()),
            Row::Span(span) => {
                let mut cells = vec![format!("*{}*", escape(span))];
                cells.resize(table.head.len(), String::new());
                line(cells)
            }
        };
    }
}

fn cell(cell: &Cell) -> String {
    // White space that aligns in a terminal is none here.
    let words: Vec<&str> = cell.text.split_whitespace().collect();
    let text = escape(&words.join(" ").replace("( ", "(").replace("* ", "*"));
    match cell.tone {
        Tone::Better | Tone::Worse => format!("**{text}**"),
        Tone::Plain | Tone::Faint => text,
    }
}

/// Takes the meaning from everything that Markdown or HTML inside it would obey.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // A bare address becomes a link.
            ':' => {
                escaped += if escaped.ends_with("http") || escaped.ends_with("https") {
                    "&#58;"
                } else {
                    ":"
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(escape("a|b"), "a\\|b");
        assert_eq!(
            escape("<script>x</script>"),
            "&lt;script&gt;x&lt;/script&gt;"
        );
        assert_eq!(escape("![x](https://h)"), "!\\[x\\](https&#58;//h)");
    }

    #[test]
    fn alignment_goes() {
        let starred = Cell::new("1.000 *  10.00%*").tone(Tone::Better);
        assert_eq!(cell(&starred), "**1.000 \\*10.00%\\***");
    }
}
