// SPDX-License-Identifier: GPL-2.0-only
//! How numbers are written: as many digits as carry meaning, the same for all that stand side by side.

pub use crate::compare::analysis::change;
use crate::compare::record::Better;

/// An interval of ratios as one of changes, the smaller end first.
pub fn change_interval(better: Better, (low, high): (f64, f64)) -> (f64, f64) {
    let (a, b) = (change(better, low), change(better, high));
    (a.min(b), a.max(b))
}

/// Digits behind the point that show four significant ones of the largest of `values`.
pub fn decimals(values: impl IntoIterator<Item = f64>) -> usize {
    let largest = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    if largest == 0.0 {
        return 2;
    }
    // Clamped first: a float that does not fit is cut off by `as`, and nothing here may be negative.
    (3.0 - largest.log10().floor()).clamp(0.0, 9.0) as usize
}

/// `value` with `decimals` digits behind the point.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    // -0.00 reads like a small loss.
    match text.strip_prefix('-') {
        Some(rest) if !rest.contains(|digit: char| digit != '0' && digit != '.') => rest.to_owned(),
        _ => text,
    }
}

/// `value` by itself, with four significant digits.
pub fn short(value: f64) -> String {
    fixed(value, decimals([value]))
}

/// `value` with its sign and `decimals` digits behind the point.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    match text.starts_with('-') || value.is_nan() {
        true => text,
        false => format!("+{text}"),
    }
}

/// `value` with its sign and four significant digits.
pub fn signed_short(value: f64) -> String {
    signed(value, decimals([value]))
}

/// A change in %, with its sign.
pub fn signed_percent(value: f64) -> String {
    format!("{}%", signed(value, 2))
}

/// A probability; small ones as a bound.
pub fn probability(p: f64) -> String {
    match p < 0.0001 {
        true => "<0.0001".to_owned(),
        false => format!("{p:.4}"),
    }
}

/// Bytes in the largest unit that leaves a number of 1 or more.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_positive_when_better() {
        assert!((change(Better::Lower, 0.8) - 20.0).abs() < 1e-9);
        assert!((change(Better::Higher, 0.8) + 20.0).abs() < 1e-9);
        let (low, high) = change_interval(Better::Lower, (0.8, 1.1));
        assert!((low + 10.0).abs() < 1e-9 && (high - 20.0).abs() < 1e-9);
        let (low, high) = change_interval(Better::Higher, (0.8, 1.1));
        assert!((low + 20.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9);
    }

    #[test]
    fn digits_follow_the_size() {
        assert_eq!(short(31788.42), "31788");
        assert_eq!(short(1.23456), "1.235");
        assert_eq!(short(0.000_012_34), "0.00001234");
        assert_eq!(short(0.0), "0.00");
        assert_eq!(short(f64::NAN), "NaN");
        assert_eq!(fixed(f64::INFINITY, 2), "inf");
        assert_eq!(decimals([f64::MAX, 1e-300]), 0);
    }

    #[test]
    fn nothing_is_minus_nothing() {
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(signed_percent(-0.001), "+0.00%");
        assert_eq!(signed_percent(-0.01), "-0.01%");
    }

    #[test]
    fn small_probabilities_are_bounds() {
        assert_eq!(probability(0.0), "<0.0001");
        assert_eq!(probability(0.00049), "0.0005");
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes(17), "17 B");
        assert_eq!(bytes(16 << 30), "16.0 GiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
