//! A disk for SQLite that loses power: a VFS over memory. What was written and not synced is lost, or half lost, when
//! the power goes; from a chosen operation on every write fails.
#![allow(
    unsafe_code,
    reason = "SQLite calls a VFS through C functions; each takes what `mount` and `x_open` have made"
)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all: pointers come from SQLite or from `mount`")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rusqlite::ffi;
use rusqlite::{Connection, OpenFlags};

use crate::tasks::pace::Chance;

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

#[derive(Clone, Debug, Default)]
struct Image {
    now: Vec<u8>,
    /// What the disk has for sure, and what came since.
    synced: Vec<u8>,
    pending: Vec<Change>,
}

/// What is on a disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: HashMap<String, Image>,
    shared: HashMap<String, Vec<usize>>,
    pub(super) operations: usize,
    pub(super) syncs: usize,
    /// From this operation on everything fails, as for good where `power` is lost …
    pub(super) fails_from: Option<usize>,
    /// … with this code.
    pub(super) code: c_int,
}

pub(super) type Shared = Arc<Mutex<Disk>>;

/// What is left after the power went.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// Only what was synced.
    Synced,
    /// Of the rest some sectors, by chance.
    Torn(u64),
}

impl Disk {
    pub(super) fn new() -> Shared {
        Arc::new(Mutex::new(Self { code: ffi::SQLITE_IOERR, ..Self::default() }))
    }

    /// The disk that a machine finds when it starts again.
    pub(super) fn after_power_loss(&self, left: Left) -> Shared {
        let disk = Self::new();
        for (name, image) in &self.files {
            let mut bytes = image.synced.clone();
            if let Left::Torn(seed) = left {
                let chance = Chance::new(seed);
                for change in &image.pending {
                    tear(&mut bytes, change, &chance);
                }
            }
            let image = Image { now: bytes.clone(), synced: bytes, pending: Vec::new() };
            disk.lock().files.insert(name.clone(), image);
        }
        disk
    }

    fn step(&mut self) -> c_int {
        self.operations += 1;
        match self.fails_from {
            Some(from) if self.operations > from => self.code,
            _ => ffi::SQLITE_OK,
        }
    }

    fn change(&mut self, name: &str, change: Change) -> c_int {
        let code = self.step();
        if code == ffi::SQLITE_OK {
            let image = self.files.entry(name.to_owned()).or_default();
            apply(&mut image.now, &change);
            image.pending.push(change);
        }
        code
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, data) => {
            let end = at + data.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*at..end].copy_from_slice(data);
        }
        Change::Cut(length) => bytes.truncate(*length),
    }
}

/// Half of the sectors reach the disk, whichever; the cut of a file may be lost, too.
fn tear(bytes: &mut Vec<u8>, change: &Change, chance: &Chance) {
    const SECTOR: usize = 512;
    let lucky = || chance.jitter().0.is_multiple_of(2);
    match change {
        Change::Write(at, data) => {
            for (index, sector) in data.chunks(SECTOR).enumerate() {
                if lucky() {
                    apply(bytes, &Change::Write(at + index * SECTOR, sector.to_vec()));
                }
            }
        }
        Change::Cut(_) if lucky() => apply(bytes, change),
        Change::Cut(_) => {}
    }
}

/// Makes a disk known to SQLite and opens the ledger's file on it. The VFS stays registered: it is a test.
pub(super) fn mount(disk: &Shared) -> rusqlite::Result<Connection> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let name = format!("disk{}", LAST.fetch_add(1, Ordering::Relaxed));
    let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
        iVersion: 1,
        szOsFile: size_of::<Handle>() as c_int,
        mxPathname: 512,
        zName: CString::new(name.as_str()).unwrap().into_raw(),
        pAppData: Arc::into_raw(disk.clone()).cast_mut().cast(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xRandomness: Some(x_randomness),
        xSleep: Some(x_sleep),
        xCurrentTime: Some(x_current_time),
        ..unsafe { std::mem::zeroed() }
    }));
    assert_eq!(unsafe { ffi::sqlite3_vfs_register(vfs, 0) }, ffi::SQLITE_OK);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs("/tasks.db", flags, name.as_str())
}

/// An open file, as SQLite holds it.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    disk: *const Mutex<Disk>,
    name: *mut String,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_lock),
    xCheckReservedLock: Some(x_check_reserved),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_nothing),
    xShmMap: Some(x_shm_map),
    xShmLock: Some(x_shm_lock),
    xShmBarrier: Some(x_shm_barrier),
    xShmUnmap: Some(x_shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe fn parts<'a>(file: *mut ffi::sqlite3_file) -> (&'a Mutex<Disk>, &'a str) {
    unsafe {
        let handle = &*file.cast::<Handle>();
        (&*handle.disk, (*handle.name).as_str())
    }
}

unsafe fn disk_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Mutex<Disk> {
    unsafe { &*(*vfs).pAppData.cast::<Mutex<Disk>>() }
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

unsafe extern "C" fn x_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let handle = file.cast::<Handle>();
        (*handle).base.pMethods = std::ptr::null();
        let name = if name.is_null() { "/temporary".to_owned() } else { text(name).to_owned() };
        let disk = disk_of(vfs);
        {
            let mut disk = disk.lock();
            if !disk.files.contains_key(&name) {
                if flags & ffi::SQLITE_OPEN_CREATE == 0 || disk.step() != ffi::SQLITE_OK {
                    return ffi::SQLITE_CANTOPEN;
                }
                disk.files.insert(name.clone(), Image::default());
            }
        }
        (*handle).disk = disk;
        (*handle).name = Box::into_raw(Box::new(name));
        (*handle).base.pMethods = &raw const METHODS;
        if !out.is_null() {
            *out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(file: *mut ffi::sqlite3_file) -> c_int {
    drop(unsafe { Box::from_raw((*file.cast::<Handle>()).name) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_read(file: *mut ffi::sqlite3_file, to: *mut c_void, count: c_int, at: i64) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    let disk = disk.lock();
    let (count, at) = (count as usize, at as usize);
    let bytes = disk.files.get(name).map_or(&[][..], |image| &image.now);
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), count) };
    let there = bytes.len().saturating_sub(at).min(count);
    to[..there].copy_from_slice(bytes.get(at..at + there).unwrap_or_default());
    to[there..].fill(0);
    if there == count { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn x_write(file: *mut ffi::sqlite3_file, from: *const c_void, count: c_int, at: i64) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    let data = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count as usize) }.to_vec();
    disk.lock().change(name, Change::Write(at as usize, data))
}

unsafe extern "C" fn x_truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    disk.lock().change(name, Change::Cut(length as usize))
}

unsafe extern "C" fn x_sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    let mut disk = disk.lock();
    let code = disk.step();
    if code == ffi::SQLITE_OK {
        disk.syncs += 1;
        if let Some(image) = disk.files.get_mut(name) {
            image.synced.clone_from(&image.now);
            image.pending.clear();
        }
    }
    code
}

unsafe extern "C" fn x_file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    let length = disk.lock().files.get(name).map_or(0, |image| image.now.len());
    unsafe { *size = length as i64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int) -> c_int {
    let mut disk = unsafe { disk_of(vfs) }.lock();
    let code = disk.step();
    if code == ffi::SQLITE_OK {
        disk.files.remove(unsafe { text(name) });
    }
    code
}

unsafe extern "C" fn x_access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int, out: *mut c_int) -> c_int {
    unsafe { *out = c_int::from(disk_of(vfs).lock().files.contains_key(text(name))) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    out: *mut c_char,
) -> c_int {
    unsafe { std::ptr::copy(name, out, CStr::from_ptr(name).to_bytes_with_nul().len()) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_randomness(_: *mut ffi::sqlite3_vfs, count: c_int, to: *mut c_char) -> c_int {
    static SALT: AtomicU32 = AtomicU32::new(1);
    let chance = Chance::new(u64::from(SALT.fetch_add(1, Ordering::Relaxed)));
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), count as usize) };
    to.fill_with(|| chance.jitter().0 as u8);
    count
}

unsafe extern "C" fn x_sleep(_: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    micros
}

unsafe extern "C" fn x_current_time(_: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    unsafe { *days = 2_460_000.5 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_check_reserved(_: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn x_sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    512
}

unsafe extern "C" fn x_nothing(_: *mut ffi::sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn x_shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    let mut disk = disk.lock();
    let pages = disk.shared.entry(name.to_owned()).or_default();
    unsafe { *out = std::ptr::null_mut() };
    while pages.len() <= page as usize {
        if extend == 0 {
            return ffi::SQLITE_OK;
        }
        // Kept for the life of the test, as a process keeps its maps.
        pages.push(Box::leak(vec![0u64; size as usize / 8].into_boxed_slice()).as_mut_ptr().expose_provenance());
    }
    unsafe { *out = std::ptr::with_exposed_provenance_mut(pages[page as usize]) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_shm_lock(_: *mut ffi::sqlite3_file, _: c_int, _: c_int, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_shm_barrier(_: *mut ffi::sqlite3_file) {}

unsafe extern "C" fn x_shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    let (disk, name) = unsafe { parts(file) };
    if delete != 0 {
        disk.lock().shared.remove(name);
    }
    ffi::SQLITE_OK
}
