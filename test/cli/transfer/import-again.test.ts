import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  folderWith,
  importing,
  manyRows,
  namesIn,
  ndjson,
  rejectsIn,
  usersIn,
} from '../../support/transfer.ts'

const TIME = '2020-01-31T12:00:00.000Z'

const ANN = { id: 1, name: 'Ann', email: 'ann@example.com', created_at: TIME, updated_at: TIME }

const BEA = { ...ANN, id: 2, name: 'Bea', email: 'bea@example.com' }

const CID = { name: 'Cid', email: 'cid@example.com' }

const WITH_PASSWORD = { ...CID, password: 'correct horse' }

/** A folder with `users.ndjson` of these rows, after the old ones were imported. */
async function folderAfter(rows: readonly unknown[], old: object[] = [ANN, BEA]): Promise<string> {
  const cwd = folderWith(ndjson(old), 'old.ndjson')
  await importing(cwd, 'old.ndjson')
  writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
  return cwd
}

describe('when an e-mail or an id is already taken', () => {
  test.each([
    [{ name: 'New', email: 'ANN@example.com' }, 'email has already been taken'],
    [{ name: 'New', email: 'new@example.com', id: 2 }, 'id has already been taken'],
  ])('import ends at %j by default, and --resume continues with it', async (row, why) => {
    const cwd = await folderAfter([CID, row, { name: 'Dan', email: 'dan@example.com' }])
    const first = await importing(cwd, 'users.ndjson')
    expect(first.code).toBe(1)
    expect(first.stderr).toMatch(new RegExp(`^line 2: ${why}; .+\n$`))
    expect(first.stdout).toMatch(/^stopped early: 1 row, 1 created; /)
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea', 'Cid'])

    const again = await importing(cwd, 'users.ndjson', '--resume', '--on-conflict', 'skip')
    expect(again.code).toBe(0)
    expect(again.stdout).toMatch(/^3 rows, 2 created, 1 skipped; 1 of the rows by an earlier run; /)
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea', 'Cid', 'Dan'])
  })

  test('--on-conflict update changes the user with the e-mail, otherwise with the id', async () => {
    const cwd = await folderAfter([
      { name: 'Anna', email: 'ANN@example.com' },
      { id: 2, name: 'Bea', email: 'beatrice@example.com' },
      { id: 1, name: 'Anna', email: 'ANN@example.com' },
      { id: 1, name: 'Anna', email: 'beatrice@example.com' },
      // The e-mail belongs to a user, and the id to none.
      { id: 77, name: 'Bea the third', email: 'BEATRICE@example.com' },
    ])
    const args = ['users.ndjson', '--on-conflict', 'update', '--rejects', 'rejects.ndjson']
    const { code, stdout } = await importing(cwd, ...args)
    expect(code).toBe(3)
    expect(stdout).toMatch(/^5 rows, 0 created, 3 updated, 1 unchanged, 1 rejected; /)
    expect(rejectsIn(cwd)).toEqual([{ line: 4, errors: { email: ['has already been taken'] } }])
    const [ann, ...others] = usersIn(cwd)
    expect(ann).toMatchObject({ id: 1, name: 'Anna', email: 'ANN@example.com', created_at: TIME })
    expect(others).toMatchObject([{ id: 2, name: 'Bea the third', email: 'BEATRICE@example.com' }])
    expect(String(ann?.updated_at) > TIME).toBe(true)
  })

  test('--on-conflict update counts an equal password as no change, also within a file', async () => {
    const another = { ...WITH_PASSWORD, password: 'another horse' }
    const cwd = folderWith(ndjson([WITH_PASSWORD, WITH_PASSWORD, another, another]))
    const update = async (rows?: unknown[]) => {
      if (rows !== undefined) writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
      const { stdout } = await importing(cwd, 'users.ndjson', '--on-conflict', 'update')
      return stdout.split(';')[0]
    }
    expect(await update()).toBe('4 rows, 1 created, 1 updated, 2 unchanged')
    const before = usersIn(cwd)
    expect(await update([another])).toBe('1 row, 0 created, 1 unchanged')
    expect(usersIn(cwd)).toEqual(before)
    expect(await update([WITH_PASSWORD])).toBe('1 row, 0 created, 1 updated')
  })
})

// That it predicts what the import does, see `test/faults/dry-run.test.ts`.
describe('--dry-run', () => {
  test('reports what an import would do, and creates no database', async () => {
    const cwd = folderWith(ndjson([WITH_PASSWORD, {}]))
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--dry-run')
    expect(code).toBe(3)
    expect(stdout).toMatch(/^dry run, nothing was changed: 2 rows, 1 created, 1 rejected; /)
    expect(existsSync(join(cwd, 'data'))).toBe(false)
  })

  test('knows that one password under two addresses of a user is a change', async () => {
    const [first, second] = ['correct@example.com', 'other@example.com']
    const password = 'correct horse'
    const cwd = await folderAfter(
      [
        { name: 'Ann', email: first, password },
        { id: 1, name: 'Ann', email: second },
        { name: 'Ann', email: second, password },
      ],
      [{ ...ANN, email: first }],
    )
    const all = ['users.ndjson', '--on-conflict', 'update']
    for (const args of [['--dry-run'], []]) {
      const { stdout } = await importing(cwd, ...all, ...args)
      expect(stdout).toMatch(/^(?:dry run, nothing was changed: )?3 rows, 0 created, 3 updated; /)
    }
  })

  test('with --on-conflict fail reports all conflicts, and where the import would end', async () => {
    const ann = { name: 'Ann', email: 'ANN@example.com' }
    const cwd = await folderAfter(
      [CID, ann, CID, {}, { id: 1, name: 'Dan', email: 'dan@example.com' }],
      [ANN],
    )
    const { code, stdout, stderr } = await importing(cwd, 'users.ndjson', '--dry-run')
    expect(code).toBe(1)
    expect(stdout).toMatch(/^dry run, nothing was changed: 5 rows, 1 created, 4 rejected; /)
    expect(stderr.split('\n')).toEqual([
      'line 2: email has already been taken',
      'line 3: email has already been taken',
      "line 4: name can't be blank, email can't be blank",
      'line 5: id has already been taken',
      '3 of the rejected rows conflict with other users: without --on-conflict skip or update the import would end at the first, line 2',
      '',
    ])
    expect(namesIn(cwd)).toEqual(['Ann'])
  })
})

describe('an import that ended early', () => {
  const TWENTY = ndjson([...manyRows(10), manyRows(1)[0], ...manyRows(20).slice(10)])

  const SKIPPING = ['users.ndjson', '--on-conflict', 'skip']

  test('is not restarted by mistake: it names both options, and keeps its checkpoint', async () => {
    const cwd = folderWith(TWENTY)
    expect((await importing(cwd, 'users.ndjson')).code).toBe(1)
    expect(await importing(cwd, ...SKIPPING)).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^an earlier import of .+users\.ndjson stopped after 10 rows: --resume .+ --restart .+\n$/,
      ),
    })
    const tried = await importing(cwd, ...SKIPPING, '--dry-run')
    expect(tried).toMatchObject({ code: 0, stdout: expect.stringContaining('11 skipped') })
    expect((await importing(cwd, ...SKIPPING, '--resume')).stdout).toMatch(
      /^21 rows, 20 created, 1 skipped; 10 of the rows by an earlier run; /,
    )
    // Now it is finished.
    expect((await importing(cwd, ...SKIPPING)).stdout).toMatch(/^21 rows, 0 created, 21 skipped/)
  })

  test('begins at the first row with --restart', async () => {
    const cwd = folderWith(TWENTY)
    await importing(cwd, 'users.ndjson')
    const { code, stdout } = await importing(cwd, ...SKIPPING, '--restart')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^21 rows, 10 created, 11 skipped; \d+ s, /)
  })

  test.each([
    ['is shorter', manyRows(5), /users\.ndjson has only 5 rows, and the earlier import did 10\n$/],
    ['is another', manyRows(20).reverse(), /^the first 10 rows of .+ have changed since .+\n$/],
  ])('and later finished repeats nothing, and refuses a file that %s', async (_, rows, message) => {
    const cwd = folderWith(ndjson(manyRows(10)))
    for (const of of ['', ' 10 of the rows by an earlier run;']) {
      const { code, stdout } = await importing(cwd, 'users.ndjson', '--resume')
      expect(code).toBe(0)
      expect(stdout).toMatch(new RegExp(`^10 rows, 10 created;${of} \\d+ s, `))
    }
    writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
    const { code, stderr } = await importing(cwd, 'users.ndjson', '--resume')
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(message) })
    expect(usersIn(cwd)).toHaveLength(10)
  })

  test('of CSV continues only with the same columns, in any spelling, in a file that has grown', async () => {
    const rows = 'ann@example.com,ann@example.net\nbea@example.com,bea@example.net\n'
    const cwd = folderWith(`name,email\n${rows}`, 'users.csv')
    await importing(cwd, 'users.csv')
    writeFileSync(join(cwd, 'users.csv'), `email,name\n${rows}cid@example.com,Cid\n`)
    const other = await importing(cwd, 'users.csv', '--resume')
    expect(other.code).toBe(1)
    expect(other.stderr).toMatch(/^the first 2 rows of .+ have changed .+ or have other columns/)

    const semicolons = rows.replaceAll(',', ';')
    writeFileSync(join(cwd, 'users.csv'), `Name;"EMAIL"\n${semicolons}Cid;cid@example.net\n`)
    const same = await importing(cwd, 'users.csv', '--resume')
    expect(same).toMatchObject({ code: 0, stdout: expect.stringMatching(/^3 rows, 3 created; 2 /) })
  })
})
