//! `dream-meter explain`: asks the running meter, or reads the records of one that is stopped.

use std::io::Write;

use super::{ConfigArgs, status};
use crate::agent;
use crate::config::Config;
use crate::explain;
use crate::records::{Records, RecordsError};

pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let config = args.load()?;
    match of_records(&config) {
        Ok(text) => Ok(out.write_all(text.as_bytes())?),
        Err(error) => match error.downcast_ref::<RecordsError>() {
            Some(RecordsError::Locked { .. }) => Ok(out.write_all(&status::ask(config.http, "/explain")?)?),
            _ => Err(error),
        },
    }
}

/// Says what the records of a stopped meter say. A home that has none has shared nothing.
fn of_records(config: &Config) -> anyhow::Result<String> {
    let identity = config.load_identity()?;
    let mut standing = agent::first_standing(config, &identity);
    if Records::file(&config.state).exists() {
        agent::recall(&mut standing, &Records::open(&config.state)?)?;
    }
    Ok(explain::text(&standing))
}
