import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { executeSql } from '../../support/sql.ts'
import { openSqliteStored } from '../../support/stored.ts'

test('the revision of bans can be read with the marks of a hundred thousand processes', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const { bans: store } = await openSqliteStored(path)
  await executeSql(
    path,
    `DROP TRIGGER ban_changes_inserted;
    INSERT INTO ban_changes (writer, mark)
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 100000)
    SELECT n, 281474976710655 FROM numbers`,
  )
  const before = await store.revision()
  await executeSql(path, `INSERT INTO bans (rule, client_key, ends_at) VALUES ('a', 'b', 1)`)
  expect(await store.revision()).not.toBe(before)
})
