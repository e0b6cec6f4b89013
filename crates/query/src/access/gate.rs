//! The gate: what a session may read and write, asked where rows are read and changes are made.
//!
//! Pure: it holds what was granted at one moment, and whose rights count. Whoever reads a table
//! asks for it by its columns, and is told which labels of rows and cells it may see past.
//!
//! Invariant GATE-1: rows leave the engine for a statement, and changes enter it, only past a gate
//! of the session's role, which is asked anew at each run.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::access::{Access, Object, Privilege, Rights, RoleId};
use lazybase_model::label::Authorizations;
use lazybase_model::{Column, ColumnId, Error, LabelRole, Result, Table, TableId};

use crate::labels::Sight;

mod of_sequences;

/// What one session may do at one moment. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    access: Arc<Access>,
    role: Option<RoleId>,
    narrowed: Option<Arc<Authorizations>>,
    rights: Arc<Rights>,
    sight: Sight,
    /// Columns of a table that the statement itself needs, and shows nobody.
    free: Option<(TableId, Arc<BTreeSet<ColumnId>>)>,
}

impl Gate {
    /// What a role may do that uses no other authorisations than `narrowed`, if that is said.
    pub(crate) fn new(
        access: Arc<Access>,
        role: Option<RoleId>,
        narrowed: Option<&Arc<Authorizations>>,
    ) -> Gate {
        let rights = access.rights_of(role);
        Gate {
            sight: Sight::new(rights.authorizations.as_ref(), narrowed),
            rights: Arc::new(rights),
            access,
            role,
            narrowed: narrowed.cloned(),
            free: None,
        }
    }

    /// Whether it is what the same would be made of again.
    pub(crate) fn is_of(
        &self,
        access: &Arc<Access>,
        role: Option<RoleId>,
        narrowed: Option<&Arc<Authorizations>>,
    ) -> bool {
        let same = match (&self.narrowed, narrowed) {
            (None, None) => true,
            (Some(known), Some(narrowed)) => Arc::ptr_eq(known, narrowed),
            _ => false,
        };
        same && self.role == role && Arc::ptr_eq(&self.access, access)
    }

    /// The same, with columns that may be read because nobody is shown them.
    pub(crate) fn with_free(
        mut self,
        table: TableId,
        columns: impl IntoIterator<Item = ColumnId>,
    ) -> Gate {
        self.free = Some((table, Arc::new(columns.into_iter().collect())));
        self
    }

    /// What may be read for a view: by the rights of its owner, and past those labels that the
    /// session itself may read.
    pub(crate) fn of_owner(&self, view: TableId) -> Gate {
        let owner = self.access.owner_of(view);
        let rights = Rights {
            authorizations: self.rights.authorizations.clone(),
            ..self.access.rights_of(owner)
        };
        Gate {
            access: Arc::clone(&self.access),
            role: owner,
            narrowed: self.narrowed.clone(),
            rights: Arc::new(rights),
            sight: self.sight.clone(),
            free: None,
        }
    }

    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Whether these columns of a table, or of a view that a statement names, may be read, by
    /// their places; places behind the definition are of hidden columns, which tell of whole rows.
    /// What is read is shown through the sight.
    ///
    /// # Errors
    /// `Invalid` (42501) if not.
    pub(crate) fn read(&self, named: &Table, columns: &[usize]) -> Result<Sight> {
        self.may_read(named, columns)?;
        Ok(self.sight.clone())
    }

    /// What the session sees of rows and cells that have labels.
    pub(crate) fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Whether rows of a table may be hidden from the session, so that nothing that writes by keys
    /// alone may tell whether they are there.
    pub(crate) fn hides_rows(&self, table: &Table) -> bool {
        self.sight.hides_rows(table)
    }

    /// Refuses what would meet rows without looking whether they may be read.
    ///
    /// # Errors
    /// `Invalid` (42501) where rows may be hidden from the session.
    pub(crate) fn meet_rows(&self, table: &Table, hint: &str) -> Result<()> {
        match self.hides_rows(table) {
            false => Ok(()),
            true => Err(denied(format!(
                "rows of table {:?} that may not be read can't be met",
                table.name
            ))
            .with_detail("its rows have labels, and the session sees some of them only")
            .with_hint(hint)),
        }
    }

    /// Refuses what tells of all rows and cells of a table.
    ///
    /// # Errors
    /// `Invalid` (42501) where some may be hidden from the session.
    pub(crate) fn see_all(&self, table: &Table, what: &str) -> Result<()> {
        match self.sight.is_limited(table) {
            false => Ok(()),
            true => Err(denied(format!("permission denied to {what} {}", of(table)))
                .with_detail("it has labels, and the session may read some rows or cells only")
                .with_hint("a superuser sees all")),
        }
    }

    /// As [`Gate::read`], where nothing of the rows is shown.
    pub(crate) fn may_read(&self, named: &Table, columns: &[usize]) -> Result<()> {
        if self.rights.superuser {
            return Ok(());
        }
        let free = self.free.as_ref().filter(|(table, _)| *table == named.id);
        let is_free = |id: &ColumnId| free.is_some_and(|(_, columns)| columns.contains(id));
        let (mut asked, mut whole) = (Vec::new(), false);
        for at in columns {
            match named.columns.get(*at) {
                Some(column) if is_free(&column.id) => {}
                Some(Column {
                    label: Some(LabelRole::OfCells(id)),
                    ..
                }) => asked.push(*id),
                Some(column) if *at < named.visible_columns() => asked.push(column.id),
                _ => whole = true,
            }
        }
        let whole_object = Object::Table(named.id);
        let may_whole = || {
            self.access
                .may(&self.rights, Privilege::Select, whole_object)
        };
        // What reads nothing but what it needs itself shows nothing.
        let needs_nothing = free.is_some() && asked.is_empty();
        let select = Privilege::Select;
        let may = match (whole, needs_nothing) {
            (true, _) => may_whole(),
            (false, true) => true,
            (false, false) => self
                .access
                .may_columns(&self.rights, select, named.id, &asked),
        };
        match may {
            true => Ok(()),
            false => Err(self.denied(select, named, &asked)),
        }
    }

    /// Whether a column of a view may be read.
    pub(crate) fn reads_column(&self, view: &Table, column: ColumnId) -> bool {
        let column = Object::Column(view.id, column);
        self.access.may(&self.rights, Privilege::Select, column)
    }

    /// The refusal of a statement that reads columns of a view which may not be read.
    pub(crate) fn withheld(&self, view: &Table, columns: &[ColumnId]) -> Error {
        self.denied(Privilege::Select, view, columns)
    }

    /// Whether a statement may name a table or view to read from it.
    pub(crate) fn name(&self, named: &Table) -> Result<()> {
        let select = Privilege::Select;
        match self.access.may_some(&self.rights, select, named.id) {
            true => Ok(()),
            false => Err(self.denied(select, named, &[])),
        }
    }

    /// Whether columns of a table may be written: by INSERT or UPDATE.
    pub(crate) fn write(&self, does: Privilege, table: &Table, columns: &[usize]) -> Result<()> {
        let ids = columns.iter().filter_map(|at| table.columns.get(*at));
        // Who may write a cell may write its label; that of a row needs all of the table.
        let ids: Vec<ColumnId> = ids
            .map(|column| match column.label {
                Some(LabelRole::OfCells(id)) => id,
                _ => column.id,
            })
            .collect();
        match self.access.may_columns(&self.rights, does, table.id, &ids) {
            true => Ok(()),
            false => Err(self.denied(does, table, &ids)),
        }
    }

    /// Whether something may be done with all of a table: DELETE or TRUNCATE.
    pub(crate) fn table(&self, does: Privilege, table: &Table) -> Result<()> {
        match self.access.may(&self.rights, does, Object::Table(table.id)) {
            true => Ok(()),
            false => Err(self.denied(does, table, &[])),
        }
    }

    /// Whether a table or view is the session's own. Numbers of keys belong to whom the keys do.
    pub(crate) fn own(&self, table: &Table) -> Result<()> {
        let id = table.key_map.map_or(table.id, |map| map.owner);
        let of_table = table.view_of.is_some_and(|of| self.owns(of));
        match self.owns(id) || of_table {
            true => Ok(()),
            false => Err(denied(format!("you must own {}", of(table)))
                .with_hint("its owner or a superuser may do this")),
        }
    }

    pub(crate) fn owns(&self, table: TableId) -> bool {
        self.access.owns(&self.rights, table)
    }

    /// Whether the session may see that a table or view is there with all it is made of.
    pub(crate) fn sees(&self, table: &Table) -> bool {
        self.access.may_anything(&self.rights, table.id)
    }

    /// The same, as an error.
    pub(crate) fn look(&self, table: &Table) -> Result<()> {
        match self.sees(table) {
            true => Ok(()),
            false => Err(denied(format!("permission denied for {}", of(table)))
                .with_detail("any privilege on it is needed")),
        }
    }

    /// Whether tables may be made.
    pub(crate) fn create(&self) -> Result<()> {
        match self
            .access
            .may(&self.rights, Privilege::Create, Object::Database)
        {
            true => Ok(()),
            false => Err(denied("permission denied for database lazybase")
                .with_detail("CREATE is needed to make tables")
                .with_hint("a superuser can GRANT CREATE ON DATABASE lazybase")),
        }
    }

    /// Whether the session may do what only superusers may.
    pub(crate) fn superuser(&self, what: &str) -> Result<()> {
        match self.rights.superuser {
            true => Ok(()),
            false => Err(denied(format!("only superusers may {what}"))),
        }
    }

    /// Whether the session's role is gone.
    fn is_of_nobody(&self) -> bool {
        let is_there = |role: &RoleId| self.access.roles.contains_key(role);
        self.role.as_ref().is_some_and(|role| !is_there(role))
    }

    fn denied(&self, privilege: Privilege, table: &Table, columns: &[ColumnId]) -> Error {
        let error = denied(format!("permission denied for {}", of(table)));
        if self.is_of_nobody() {
            return of_dropped_role(error);
        }
        let name = privilege.name();
        let missing = table.columns[..table.visible_columns()]
            .iter()
            .filter(|column| {
                let object = Object::Column(table.id, column.id);
                columns.contains(&column.id) && !self.access.may(&self.rights, privilege, object)
            });
        let missing: Vec<String> = missing.map(|column| format!("{:?}", column.name)).collect();
        let whose = match missing.is_empty() {
            true => String::new(),
            false => format!(", or on its columns {}", missing.join(", ")),
        };
        error
            .with_detail(format!("{name} on it is needed{whose}"))
            .with_hint("its owner or a superuser can GRANT it")
    }
}

fn of(table: &Table) -> String {
    match table.view_of.is_some() || table.query.is_some() {
        false => format!("table {:?}", table.name),
        true => format!("view {:?}", table.name),
    }
}

fn of_dropped_role(error: Error) -> Error {
    error
        .with_detail("the session's role was dropped")
        .with_hint("connect again, as another role")
}

/// Something is forbidden.
pub(crate) fn denied(message: impl Into<String>) -> Error {
    Error::invalid(message).with_sqlstate("42501")
}
