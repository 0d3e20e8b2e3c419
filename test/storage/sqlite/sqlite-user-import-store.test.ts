import { describeUserImportStore } from '../../contracts/user-import-store-contract.ts'
import { openSqliteImportStore } from '../../support/import-users.ts'

describeUserImportStore('SQLite', openSqliteImportStore)
