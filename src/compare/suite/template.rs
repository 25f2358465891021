// SPDX-License-Identifier: GPL-2.0-only
//! Command lines with `{...}` in them.
//!
//! Between braces stands an expression (`{2 * cpus}`), a word of the scale (`{stressor}`), or
//! `{scx_ballast}`, the path of this program. `{{` and `}}` are braces of the shell's own.

use super::expr::{EvalError, Expr};

/// The name of the value that is no number: this program.
pub(super) const PROGRAM: &str = "scx_ballast";

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Expr(Expr),
}

/// What fills a template.
pub(super) trait Values {
    /// A value that is a number.
    fn number(&self, name: &str) -> Option<u64>;
    /// A value that is text, as a word of the shell.
    fn text(&self, name: &str) -> Option<String>;
}

impl Template {
    /// Parses `text`. The error says what was expected.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
            } else if brace == "}" {
                return Err("a } without a {: for the shell's own write }}".into());
            } else {
                let (inner, after) = rest
                    .split_once('}')
                    .ok_or("a { without a }: for the shell's own write {{")?;
                let expr = Expr::parse(inner).map_err(|why| {
                    format!("{{{inner}}}: {why} (for the shell's own braces write {{{{ and }}}})")
                })?;
                parts.push(Part::Text(std::mem::take(&mut literal)));
                parts.push(Part::Expr(expr));
                rest = after;
            }
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        Ok(Template { parts })
    }

    /// The expressions in it.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expr(expr) => Some(expr),
            Part::Text(_) => None,
        })
    }

    /// The command line.
    pub(super) fn fill(&self, values: &dyn Values) -> Result<String, EvalError> {
        let mut line = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Expr(expr) => match expr {
                    Expr::Value(name) if values.text(name).is_some() => {
                        line.extend(values.text(name));
                    }
                    _ => line.push_str(&expr.eval(&|name| values.number(name))?.to_string()),
                },
            }
        }
        Ok(line)
    }
}

/// `text` as one word of the shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine;

    impl Values for Machine {
        fn number(&self, name: &str) -> Option<u64> {
            (name == "cpus").then_some(8)
        }
        fn text(&self, name: &str) -> Option<String> {
            (name == PROGRAM).then(|| quoted("/opt/my own/scx_ballast"))
        }
    }

    #[test]
    fn values_are_filled_in_and_the_shells_braces_stay() {
        let fill = |text: &str| Template::parse(text).unwrap().fill(&Machine).unwrap();
        assert_eq!(fill("{cpus}x{ 2*cpus }"), "8x16");
        assert_eq!(
            fill("{scx_ballast} work | awk '{{print $1}}'"),
            "'/opt/my own/scx_ballast' work | awk '{print $1}'"
        );
        assert_eq!(fill("echo ${{HOME}}"), "echo ${HOME}");
        assert_eq!(fill(""), "");
    }

    #[test]
    fn braces_that_do_not_match_are_told() {
        for (text, expected) in [
            ("a } b", "a } without a {"),
            ("a {cpus", "a { without a }"),
            ("{ echo; }", "for the shell's own braces write {{ and }}"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn quoting_survives_the_shell() {
        for text in ["plain/path", "", "it's", "a b $c `d` \"e\"\n\\"] {
            let command = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("/bin/sh")
                .arg("-c")
                .arg(command)
                .output();
            assert_eq!(output.unwrap().stdout, text.as_bytes(), "{text:?}");
        }
    }
}
