// SPDX-License-Identifier: GPL-2.0-only
//! Dates and times of day, always in UTC.

use time::OffsetDateTime;

/// Now, as RFC 3339 has it: `2026-11-30T12:00:00Z`.
pub fn now() -> String {
    rfc3339(OffsetDateTime::now_utc())
}

/// Now, for the name of a file: `20261130T120000Z`.
pub fn for_file_name() -> String {
    now().replace(['-', ':'], "")
}

fn rfc3339(t: OffsetDateTime) -> String {
    let (year, month, day) = t.to_calendar_date();
    let (hour, minute, second) = t.to_hms();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_width() {
        let when = OffsetDateTime::from_unix_timestamp(1_767_323_045).unwrap();
        assert_eq!(rfc3339(when), "2026-01-02T03:04:05Z");
    }
}
