//! Parameters of requests, each refused with its name, its value and what is allowed.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use dream_protocol::time::Timestamp;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::history::Step;

/// The parameters of a request as they came. Of one that comes twice, the last counts.
#[derive(Debug)]
pub(super) struct Parameters {
    values: BTreeMap<String, String>,
    accepts_csv: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = pairs.map_err(|_| {
            let query = parts.uri.query().unwrap_or_default();
            ApiError::parameter("query", query, "name=value pairs, percent-encoded, joined by `&`")
        })?;
        let accepts = parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        Ok(Self { values: pairs.into_iter().collect(), accepts_csv: accepts.contains("text/csv") })
    }
}

/// The id in a path, or the id and what follows it: any text, but text.
#[derive(Debug)]
pub(super) struct Id<T = String>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        let refuse = |_| ApiError::parameter("id", parts.uri.path(), "an id that is percent-encoded UTF-8");
        path.map(|Path(id)| Self(id)).map_err(refuse)
    }
}

/// What slots are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotsQuery {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) limit: usize,
    pub(super) format: Format,
}

/// What hours or days are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HistoryQuery {
    pub(super) step: Step,
    pub(super) rows: SlotsQuery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
}

const DAY_SECONDS: u64 = 86_400;
const DEFAULT_LIMIT: usize = 1000;
pub(super) const MAX_LIMIT: usize = 100_000;

impl Parameters {
    /// Returns the version of the board that the client has.
    pub(super) fn after(&self) -> Result<Option<u64>, ApiError> {
        self.only(&["after"])?;
        self.number("after", 0, u64::MAX, "a `version` of an earlier answer")
    }

    pub(super) fn none(&self) -> Result<(), ApiError> {
        self.only(&[])
    }

    /// By default the newest thousand slots of the last 24 hours.
    pub(super) fn slots(&self, now: Timestamp) -> Result<SlotsQuery, ApiError> {
        self.only(&["from", "to", "limit", "format"])?;
        self.rows(now, DAY_SECONDS)
    }

    /// By default the newest thousand days of the last year, or hours of the last week.
    pub(super) fn history(&self, now: Timestamp) -> Result<HistoryQuery, ApiError> {
        self.only(&["step", "from", "to", "limit", "format"])?;
        let step = self.get("step").map_or(Some(Step::Day), Step::named);
        let step = step.ok_or_else(|| self.refuse("step", "hour or day; slots are at /api/v1/clusters/{id}/slots"))?;
        let back = match step {
            Step::Hour => 7 * DAY_SECONDS,
            Step::Day => 366 * DAY_SECONDS,
        };
        Ok(HistoryQuery { step, rows: self.rows(now, back)? })
    }

    /// Reads from when to when, how many at most and how, by default for so many seconds until now.
    fn rows(&self, now: Timestamp, back: u64) -> Result<SlotsQuery, ApiError> {
        let to = self.instant("to")?.unwrap_or(now);
        let before = Timestamp::from_secs(to.as_secs().saturating_sub(back));
        let from = self.instant("from")?.unwrap_or(before);
        if from > to {
            return Err(self.refuse("from", "an instant not after `to`"));
        }
        let most = u64::try_from(MAX_LIMIT).unwrap_or(u64::MAX);
        let limit = self.number("limit", 1, most, "a whole number from 1 to 100000")?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT);
        Ok(SlotsQuery { from, to, limit, format: self.format()? })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn refuse(&self, name: &str, allowed: &str) -> ApiError {
        ApiError::parameter(name, self.get(name).unwrap_or_default(), allowed)
    }

    /// Refuses parameters that are not known: a misspelt one would otherwise be ignored in silence.
    fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        let unknown = self.values.keys().find(|name| !known.contains(&name.as_str()));
        unknown.map_or(Ok(()), |name| Err(ApiError::unknown_parameter(name, known)))
    }

    fn number(&self, name: &str, least: u64, most: u64, allowed: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.refuse(name, allowed))
    }

    fn instant(&self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let instant = parse_instant(text);
        let allowed = "an instant from 1970 on, as RFC 3339 such as 2026-01-31T12:00:00Z, or in Unix seconds";
        instant.map(Some).ok_or_else(|| self.refuse(name, allowed))
    }

    fn format(&self) -> Result<Format, ApiError> {
        match self.get("format") {
            Some("json") => Ok(Format::Json),
            Some("csv") => Ok(Format::Csv),
            Some(_) => Err(self.refuse("format", "json or csv")),
            None => Ok(if self.accepts_csv { Format::Csv } else { Format::Json }),
        }
    }
}

pub(super) fn parse_instant(text: &str) -> Option<Timestamp> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Timestamp::from_secs);
    }
    // A plus sign that was not percent-encoded arrives as a space.
    let instant: jiff::Timestamp = text.replace(' ', "+").parse().ok()?;
    u64::try_from(instant.as_millisecond()).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        let values = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Parameters { values, accepts_csv: false }
    }

    #[test]
    fn slots_default_to_the_newest_thousand_of_the_last_day() {
        let from = Timestamp::from_secs(1_800_000_000 - 86_400);
        let expected = SlotsQuery { from, to: NOW, limit: 1000, format: Format::Json };
        assert_eq!(parameters(&[]).slots(NOW).unwrap(), expected);
    }

    #[test]
    fn history_defaults_to_the_days_of_the_last_year_or_the_hours_of_the_last_week() {
        let asked = |pairs: &[(&str, &str)]| {
            let HistoryQuery { step, rows } = parameters(pairs).history(NOW).unwrap();
            (step, (NOW.as_secs() - rows.from.as_secs()) / 86_400, rows.limit)
        };
        assert_eq!(asked(&[]), (Step::Day, 366, 1000));
        assert_eq!(asked(&[("step", "hour"), ("limit", "7")]), (Step::Hour, 7, 7));
        for step in ["", "slot", "month"] {
            parameters(&[("step", step)]).history(NOW).unwrap_err();
        }
    }

    #[test]
    fn instants_are_rfc_3339_or_unix_seconds() {
        let noon = Some(Timestamp::from_secs(1_769_860_800));
        let texts = ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31T13:00:00 01:00", "1769860800"];
        for text in texts {
            assert_eq!(parse_instant(text), noon, "{text}");
        }
        for text in ["", "noon", "2026-01-31", "1969-12-31T23:59:59Z", "-1", "99999999999999999999999"] {
            assert_eq!(parse_instant(text), None, "{text}");
        }
    }

    #[test]
    fn csv_is_chosen_by_parameter_or_else_by_the_accept_header() {
        let accepting = |pairs: &[(&str, &str)]| Parameters { accepts_csv: true, ..parameters(pairs) };
        assert_eq!(accepting(&[]).slots(NOW).unwrap().format, Format::Csv);
        assert_eq!(accepting(&[("format", "json")]).slots(NOW).unwrap().format, Format::Json);
        assert_eq!(parameters(&[("format", "csv")]).slots(NOW).unwrap().format, Format::Csv);
    }
}
