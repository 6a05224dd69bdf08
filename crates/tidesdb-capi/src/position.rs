//! Positions in the order of a cluster.

use std::ffi::c_int;

use tidesdb::internal::format::{ClusterPosition, Gtid};

use crate::error::{guard, guard_shared, OK};
use crate::handles::{DbHandle, TxnHandle};
use crate::txn::transaction;
use crate::{answer, bytes, given, NOT_FOUND};

/// `tidesdb_position`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PositionC {
    pub(crate) uuid: [u8; 16],
    pub(crate) number: i64,
    pub(crate) has_gtid: c_int,
    pub(crate) gtid_domain: u32,
    pub(crate) gtid_server: u32,
    pub(crate) gtid_number: u64,
}

impl From<&PositionC> for ClusterPosition {
    fn from(c: &PositionC) -> ClusterPosition {
        let gtid = Gtid { domain: c.gtid_domain, server: c.gtid_server, number: c.gtid_number };
        ClusterPosition { uuid: c.uuid, number: c.number, gtid: (c.has_gtid != 0).then_some(gtid) }
    }
}

impl From<ClusterPosition> for PositionC {
    fn from(position: ClusterPosition) -> PositionC {
        let gtid = position.gtid.unwrap_or(Gtid { domain: 0, server: 0, number: 0 });
        PositionC {
            uuid: position.uuid,
            number: position.number,
            has_gtid: c_int::from(position.gtid.is_some()),
            gtid_domain: gtid.domain,
            gtid_server: gtid.server,
            gtid_number: gtid.number,
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_position(txn: *mut TxnHandle, position: *const PositionC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let position = unsafe { position.as_ref() }.map(ClusterPosition::from);
        // SAFETY: as above.
        unsafe { transaction(txn)? }.set_position(position.as_ref())?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_get_position(db: *mut DbHandle, position: *mut PositionC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let Some(found) = unsafe { given(db)? }.db.position() else { return Ok(NOT_FOUND) };
        // SAFETY: as above.
        unsafe { answer(position, found.into())? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_set_position(db: *mut DbHandle, position: *const PositionC) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, position) = unsafe { (given(db)?, given(position)?) };
        handle.db.set_position(&position.into())?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_commit_by_xid_at(
    db: *mut DbHandle,
    xid: *const u8,
    xid_size: usize,
    position: *const PositionC,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, xid, position) = unsafe { (given(db)?, bytes(xid, xid_size), given(position)?) };
        Ok(if handle.db.commit_by_xid_at(xid, &position.into())? { OK } else { NOT_FOUND })
    })
}
