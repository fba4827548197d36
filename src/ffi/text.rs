//! Strings over the border: UTF-8 in, checked; UTF-8 out, NUL-terminated, with its length, owned by an object.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

use parking_lot::Mutex;

use crate::error::{Error, Kind, Result};

/// Chosen: far above any message, and below what a host's -1 becomes as 32 or 64 bits without a sign.
const LONGEST: usize = 0x7FFF_FFFF;

/// A NUL-terminated text of the host's. Copied nowhere: valid for the call.
///
/// # Errors
/// [`Kind::Argument`] for NULL, [`Kind::Utf8`] for what is no UTF-8; both name the parameter.
///
/// # Safety
/// `text` is NULL or points to bytes that end with a NUL and stay unchanged during the call.
pub(super) unsafe fn name_in<'a>(text: *const c_char, parameter: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::new(Kind::Argument, format!("{parameter} is NULL")));
    }
    // SAFETY: not NULL, checked above; terminated and unchanged by the contract of every function.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|fault| not_utf8(parameter, fault))
}

/// A text of the host's with its length; NULL is allowed where the length is 0.
///
/// # Errors
/// As [`name_in`]; [`Kind::Argument`] for a length that no text can have.
///
/// # Safety
/// `text` is NULL or points to `length` bytes that stay unchanged during the call.
pub(super) unsafe fn text_in<'a>(text: *const c_char, length: usize, parameter: &str) -> Result<&'a str> {
    // SAFETY: by this function's own contract.
    let bytes = unsafe { bytes_in(text, length, parameter) }?;
    std::str::from_utf8(bytes).map_err(|fault| not_utf8(parameter, fault))
}

/// Bytes of the host's with their number; NULL is allowed where that is 0.
///
/// # Errors
/// [`Kind::Argument`] for NULL with a length, and for a length that nothing can have.
///
/// # Safety
/// As [`text_in`].
pub(super) unsafe fn bytes_in<'a>(text: *const c_char, length: usize, parameter: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if text.is_null() {
        return Err(Error::new(Kind::Argument, format!("{parameter} is NULL but its length is {length}")));
    }
    if length > LONGEST {
        return Err(Error::new(Kind::Argument, format!("the length of {parameter} is over {LONGEST} bytes")));
    }
    // SAFETY: not NULL and of a possible length, checked above; readable and unchanged by the contract.
    Ok(unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) })
}

fn not_utf8(parameter: &str, fault: std::str::Utf8Error) -> Error {
    Error::new(Kind::Utf8, format!("{parameter} is not valid UTF-8 at byte {}", fault.valid_up_to()))
}

/// Checks that an output parameter is there, and clears it.
///
/// # Errors
/// [`Kind::Argument`] for NULL.
///
/// # Safety
/// `out` is NULL or points to a `T` that may be written.
pub(super) unsafe fn out<'a, T>(out: *mut T, empty: T) -> Result<&'a mut T> {
    if out.is_null() {
        return Err(Error::new(Kind::Argument, "the output parameter is NULL"));
    }
    // SAFETY: not NULL, checked above; writable and nobody else's during the call, by the contract. Written before
    // a reference is made, since the host may hand over memory that was never initialised.
    unsafe {
        out.write(empty);
        Ok(&mut *out)
    }
}

/// Writes a length where the host wants it.
///
/// # Safety
/// `length` is NULL or may be written.
pub(super) unsafe fn put_length(length: *mut usize, value: usize) {
    if !length.is_null() {
        // SAFETY: not NULL, checked above; writable by the contract.
        unsafe { length.write(value) };
    }
}

/// Which text of an object: its field, and the index of a block.
type Field = (i32, i32);

/// The texts that were handed out of an object: made on demand, never moved, gone with it.
#[derive(Default)]
pub(super) struct Texts {
    made: Mutex<BTreeMap<Field, Option<Box<[u8]>>>>,
}

impl Texts {
    /// The text of a field (and index), NUL-terminated, made at its first use; NULL where there is none.
    ///
    /// # Safety
    /// `length` is NULL or may be written.
    pub(super) unsafe fn get<S: AsRef<str>>(
        &self,
        field: (i32, i32),
        length: *mut usize,
        make: impl FnOnce() -> Option<S>,
    ) -> *const c_char {
        let mut made = self.made.lock();
        let text = made.entry(field).or_insert_with(|| {
            make().map(|text| {
                let text = text.as_ref();
                let mut bytes = Vec::with_capacity(text.len() + 1);
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(0);
                bytes.into_boxed_slice()
            })
        });
        // The box is never taken out of the map, so the address stays while the object does.
        let (pointer, size) =
            text.as_ref().map_or((std::ptr::null(), 0), |text| (text.as_ptr().cast(), text.len() - 1));
        drop(made);
        // SAFETY: by this function's own contract.
        unsafe { put_length(length, size) };
        pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_terminated_and_stay_where_they_are() {
        let texts = Texts::default();
        let mut length = 9;
        // SAFETY: `length` may be written; the pointer is read while `texts` lives.
        unsafe {
            let first = texts.get((1, 0), &raw mut length, || Some("a\0é"));
            assert_eq!(length, 4);
            assert_eq!(std::slice::from_raw_parts(first.cast::<u8>(), 5), b"a\0\xc3\xa9\0");
            for field in 2..100 {
                texts.get((field, 0), std::ptr::null_mut(), || Some("x"));
            }
            assert_eq!(texts.get((1, 0), std::ptr::null_mut(), || Some("other")), first);
            assert!(texts.get((200, 0), &raw mut length, || None::<&str>).is_null());
            assert_eq!(length, 0);
        }
    }

    #[test]
    fn bad_input_names_its_parameter() {
        // SAFETY: the pointers are NULL or of literals.
        unsafe {
            assert_eq!(name_in(std::ptr::null(), "name").unwrap_err().message(), "name is NULL");
            assert_eq!(name_in(c"a\xff".as_ptr(), "name").unwrap_err().message(), "name is not valid UTF-8 at byte 1");
            assert_eq!(
                text_in(std::ptr::null(), 3, "params").unwrap_err().message(),
                "params is NULL but its length is 3"
            );
            assert_eq!(text_in(std::ptr::null(), 0, "params").unwrap(), "");
            let long = text_in(c"x".as_ptr(), usize::MAX, "params").unwrap_err();
            assert_eq!(long.message(), "the length of params is over 2147483647 bytes");
            let long = text_in(c"x".as_ptr(), u32::MAX as usize, "params").unwrap_err();
            assert_eq!(long.message(), "the length of params is over 2147483647 bytes");
            assert_eq!(out(std::ptr::null_mut::<i32>(), 0).unwrap_err().message(), "the output parameter is NULL");
        }
    }
}
