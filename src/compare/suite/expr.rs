// SPDX-License-Identifier: GPL-2.0-only
//! Whole-number arithmetic over what is known of a machine: `max(1, 30000 * cpus / groups)`.
//!
//! Numbers are never negative, division rounds down, and an overflow is an error, so that a suite
//! written for a laptop says what is wrong on a machine of 4096 CPUs instead of running nonsense.

use thiserror::Error;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    Number(u64),
    Value(String),
    Binary(Op, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    /// The largest power of two that is not larger.
    Pow2,
}

/// Why there is no number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum EvalError {
    #[error("the machine's {0} is not known")]
    Unknown(String),
    #[error("{0} gives no number that can be used ({1})")]
    Arithmetic(String, &'static str),
}

/// Longer ones are a mistake, and the parser recurses.
const LONGEST: usize = 200;

impl Expr {
    /// Parses `text`. The error says what was expected.
    pub(super) fn parse(text: &str) -> Result<Expr, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {LONGEST} characters"));
        }
        let mut parser = Parser { rest: text.trim() };
        let expr = parser.sum()?;
        match parser.rest {
            "" => Ok(expr),
            rest => Err(format!("expected an operator or the end before {rest:?}")),
        }
    }

    /// The names of values that it needs.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Expr::Number(_) => Vec::new(),
            Expr::Value(name) => vec![name],
            Expr::Binary(_, left, right) => [left.names(), right.names()].concat(),
            Expr::Call(_, args) => args.iter().flat_map(Expr::names).collect(),
        }
    }

    /// Its number, where `value` knows the values.
    pub(super) fn eval(&self, value: &dyn Fn(&str) -> Option<u64>) -> Result<u64, EvalError> {
        match self {
            Expr::Number(number) => Ok(*number),
            Expr::Value(name) => value(name).ok_or_else(|| EvalError::Unknown(name.clone())),
            Expr::Binary(op, left, right) => op.apply(left.eval(value)?, right.eval(value)?),
            Expr::Call(function, args) => {
                let args: Result<Vec<u64>, EvalError> =
                    args.iter().map(|arg| arg.eval(value)).collect();
                function.apply(&args?)
            }
        }
    }
}

impl Op {
    fn apply(self, left: u64, right: u64) -> Result<u64, EvalError> {
        let (sign, result, why) = match self {
            Op::Add => ('+', left.checked_add(right), "too large"),
            Op::Subtract => ('-', left.checked_sub(right), "negative"),
            Op::Multiply => ('*', left.checked_mul(right), "too large"),
            Op::Divide => ('/', left.checked_div(right), "division by 0"),
        };
        result.ok_or_else(|| EvalError::Arithmetic(format!("{left} {sign} {right}"), why))
    }
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        match name {
            "min" => Some(Function::Min),
            "max" => Some(Function::Max),
            "pow2" => Some(Function::Pow2),
            _ => None,
        }
    }

    fn apply(self, args: &[u64]) -> Result<u64, EvalError> {
        let result = match self {
            Function::Min => args.iter().min().copied(),
            Function::Max => args.iter().max().copied(),
            Function::Pow2 => {
                let log = args.first().and_then(|number| number.checked_ilog2());
                log.map(|log| 1 << log)
            }
        };
        result.ok_or_else(|| EvalError::Arithmetic("pow2(0)".into(), "no power of 2 is below it"))
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        while let Some(op) = self.one_of(&[('+', Op::Add), ('-', Op::Subtract)]) {
            left = Expr::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.atom()?;
        while let Some(op) = self.one_of(&[('*', Op::Multiply), ('/', Op::Divide)]) {
            left = Expr::Binary(op, Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expr, String> {
        if self.one_of(&[('(', ())]).is_some() {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        match word.chars().next() {
            None => Err(format!("expected a number or a name{}", self.before())),
            Some('0'..='9') => {
                let number = word.parse().map(Expr::Number);
                number.map_err(|_| format!("{word:?} is not a whole number"))
            }
            Some(_) if self.one_of(&[('(', ())]).is_some() => self.call(word),
            Some(_) => Ok(Expr::Value(word.to_owned())),
        }
    }

    fn call(&mut self, name: &str) -> Result<Expr, String> {
        let function = Function::named(name)
            .ok_or_else(|| format!("there is no function {name}, only min, max and pow2"))?;
        let mut args = vec![self.sum()?];
        while self.one_of(&[(',', ())]).is_some() {
            args.push(self.sum()?);
        }
        self.expect(')')?;
        match (function, args.len()) {
            (Function::Pow2, 1) | (Function::Min | Function::Max, 2..) => {
                Ok(Expr::Call(function, args))
            }
            (Function::Pow2, _) => Err("pow2 takes one number".into()),
            _ => Err(format!("{name} takes two numbers or more")),
        }
    }

    /// Takes the next character if it is one of these.
    fn one_of<T: Copy>(&mut self, signs: &[(char, T)]) -> Option<T> {
        let (sign, meaning) = signs
            .iter()
            .find(|(sign, _)| self.rest.starts_with(*sign))?;
        self.rest = self.rest[sign.len_utf8()..].trim_start();
        Some(*meaning)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        self.one_of(&[(sign, ())])
            .ok_or_else(|| format!("expected {sign}{}", self.before()))
    }

    fn before(&self) -> String {
        match self.rest {
            "" => " at the end".into(),
            rest => format!(" before {rest:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u64, String> {
        let value = |name: &str| match name {
            "cpus" => Some(48),
            "huge" => Some(u64::MAX),
            _ => None,
        };
        let number = Expr::parse(text)?.eval(&value);
        number.map_err(|error| error.to_string())
    }

    #[test]
    fn arithmetic_is_as_at_school_and_rounds_down() {
        for (text, expected) in [
            ("7", 7),
            (" 2 * cpus ", 96),
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("7 - 2 - 1", 4),
            ("30000*cpus/7", 205_714),
            ("7*cpus/48", 7),
            ("max(1, cpus / 50)", 1),
            ("min(5,cpus,3+1)", 4),
            ("pow2(cpus/4)", 8),
            ("pow2(16)", 16),
        ] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_said() {
        for (text, expected) in [
            ("", "expected a number or a name at the end"),
            ("1 +", "expected a number or a name at the end"),
            ("(1", "expected ) at the end"),
            ("1 2", "expected an operator or the end before \"2\""),
            ("2cpus", "\"2cpus\" is not a whole number"),
            ("-1", "expected a number or a name before \"-1\""),
            (
                "sqrt(2)",
                "there is no function sqrt, only min, max and pow2",
            ),
            ("max(2)", "max takes two numbers or more"),
            (
                "cpus - 49",
                "48 - 49 gives no number that can be used (negative)",
            ),
            (
                "1/0",
                "1 / 0 gives no number that can be used (division by 0)",
            ),
            (
                "huge+1",
                "18446744073709551615 + 1 gives no number that can be used (too large)",
            ),
            (
                "pow2(0)",
                "pow2(0) gives no number that can be used (no power of 2 is below it)",
            ),
            ("memory_mib", "the machine's memory_mib is not known"),
            (&"(".repeat(300), "longer than 200 characters"),
            ("é", "expected a number or a name before \"é\""),
        ] {
            assert_eq!(number(text), Err(expected.to_owned()), "{text}");
        }
    }
}
