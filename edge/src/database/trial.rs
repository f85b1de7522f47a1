//! Opens a file without changing a byte of it: to check a store before it is opened, and to read a back-up.
//!
//! redb believes the header of a file that was closed in order: one damaged byte there makes it allocate terabytes, or panic
//! much later. It does check the header of a file that was not, so the check opens the file as if that were so, with whatever
//! redb writes kept in memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};

use redb::{Builder, Database, DatabaseError, StorageBackend};

/// Where redb keeps the state of a file in its header, and the flags that it has there.
const STATE: usize = 9;
const SECOND_SLOT_NEWEST: u8 = 1;
const RECOVERY_REQUIRED: u8 = 2;
const TWO_PHASE_COMMIT: u8 = 4;

/// Page size, pages before a region and pages in a region, as this version of redb lays out every file.
const LAYOUT: (usize, [u32; 3]) = (12, [4096, 0, 1 << 20]);

/// Where the transactions' numbers are in the two commit slots, and where these end.
const TRANSACTIONS: [usize; 2] = [64 + 104, 192 + 104];
const HEADER: usize = 320;

const PAGE: usize = 4096;

/// Opens a file on trial. Returns it with whether it needs no repair; the error says what is wrong with it.
pub(super) fn open(file: File, cache_bytes: usize) -> Result<(Database, bool), String> {
    check_header(&file).map_err(|error| {
        let too_short = error.kind() == io::ErrorKind::UnexpectedEof;
        if too_short { "it is too short".to_owned() } else { error.to_string() }
    })??;
    let backend = Trial { file, written: Mutex::default() };
    let opened = quietly(|| {
        let mut database = Builder::new().set_cache_size(cache_bytes).create_with_backend(backend)?;
        let clean = database.check_integrity()?;
        Ok((database, clean))
    });
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("its pages contradict each other".to_owned()),
    }
}

/// Checks what redb does not: that the header is one that it would have written.
fn check_header(file: &File) -> io::Result<Result<(), String>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let transaction = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let (state, (first, layout)) = (header[STATE], LAYOUT);
    let known = SECOND_SLOT_NEWEST | RECOVERY_REQUIRED | TWO_PHASE_COMMIT;
    let [slot, other] = TRANSACTIONS.map(transaction);
    let (newest, before) = if state & SECOND_SLOT_NEWEST == 0 { (slot, other) } else { (other, slot) };
    let problem = if state & !known != 0 || state & TWO_PHASE_COMMIT == 0 {
        "its header has an unknown state"
    } else if (0..).zip(layout).any(|(place, expected)| word(first + 4 * place) != expected) {
        "its header has another layout"
    } else if state & RECOVERY_REQUIRED == 0 && before > newest {
        "its header points to an old commit"
    } else {
        return Ok(Ok(()));
    };
    Ok(Err(problem.to_owned()))
}

/// A file that seems not to have been closed, and that stays as it is.
#[derive(Debug)]
struct Trial {
    file: File,
    written: Mutex<Written>,
}

/// What would have been written.
#[derive(Debug, Default)]
struct Written {
    len: Option<u64>,
    /// Whole pages, by their number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Trial {
    /// Fills a buffer from the file, with zeros after its end.
    fn original(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            match self.file.read_at(&mut out[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        out[filled..].fill(0);
        if let Some(state) =
            usize::try_from(offset).ok().and_then(|at| STATE.checked_sub(at)).and_then(|at| out.get_mut(at))
        {
            *state |= RECOVERY_REQUIRED;
        }
        Ok(())
    }
}

impl StorageBackend for Trial {
    fn len(&self) -> io::Result<u64> {
        let len = self.written.lock().unwrap_or_else(PoisonError::into_inner).len;
        len.map_or_else(|| Ok(self.file.metadata()?.len()), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| self.len().is_ok_and(|len| end > len)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.original(offset, out)?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (page, within, from, count) in pages(offset, out.len()) {
            if let Some(bytes) = written.pages.get(&page) {
                out[from..from + count].copy_from_slice(&bytes[within..within + count]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).len = Some(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (page, within, from, count) in pages(offset, data.len()) {
            let bytes = match written.pages.entry(page) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let mut bytes = vec![0; PAGE];
                    self.original(page * PAGE as u64, &mut bytes)?;
                    new.insert(bytes)
                }
            };
            bytes[within..within + count].copy_from_slice(&data[from..from + count]);
        }
        Ok(())
    }
}

/// Splits a range at the ends of pages: the page, where the part begins in it and in the range, and how long it is.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = offset + from as u64;
        let within = usize::try_from(at % PAGE as u64).ok()?;
        let (begin, count) = (from, (PAGE - within).min(len - from));
        from += count;
        (count > 0).then_some((at / PAGE as u64, within, begin, count))
    })
}

/// Catches a panic without its text, which would tell an operator nothing.
fn quietly<T>(work: impl FnOnce() -> Result<T, DatabaseError>) -> std::thread::Result<Result<T, DatabaseError>> {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result
}
