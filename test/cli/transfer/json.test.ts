import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jsonRecords } from '../../../src/cli/transfer/json-records.ts'
import { SEED } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'
import {
  folderWith,
  importing,
  importingFrom,
  manyRows,
  namesIn,
  ndjson,
  rejectsIn,
} from '../../support/transfer.ts'

const ANN = { name: 'Ann', email: 'ann@example.com' }

const BEA = { name: 'Bea', email: 'bea@example.com' }

const USERS = [ANN, BEA]

const pretty = (value: unknown) => JSON.stringify(value, undefined, 2)

const OTHERS = { realm: 'demo', roles: { realm: [{ name: 'admin' }] }, ids: [1], none: [] }

describe('import takes JSON', () => {
  test.each<[what: string, text: string, file?: string]>([
    ['an array on one line', JSON.stringify(USERS)],
    ['an array on many lines', pretty(USERS)],
    ['an object whose one member is an array of objects', pretty({ ...OTHERS, users: USERS })],
    ['such an object on one line', JSON.stringify({ users: USERS, kind: 'users' })],
    ['objects on lines', ndjson(USERS)],
    ['objects of many lines one after the other', `${pretty(ANN)}\n${pretty(BEA)}\n`],
    ['an array, named NDJSON', pretty(USERS), 'users.ndjson'],
    ['an array on one line, named NDJSON', `${JSON.stringify(USERS)}\n`, 'users.jsonl'],
    ['objects of many lines, named NDJSON', `${pretty(ANN)}\n${pretty(BEA)}\n`, 'users.ndjson'],
  ])('of %s', async (_what, text, file = 'users.json') => {
    const cwd = folderWith(`\ufeff${text}`, file)
    expect(await stdoutOf(importing(cwd, file))).toMatch(/^2 rows, 2 created; /)
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
    if (file !== 'users.json') return
    const piped = temporaryFolder()
    await stdoutOf(importingFrom(text, piped, '-', '--format', 'json'))
    expect(namesIn(piped)).toEqual(['Ann', 'Bea'])
  })

  test.each([
    ['an array', pretty(USERS)],
    ['an object of many lines', pretty({ users: USERS })],
    ['an object on one line', JSON.stringify({ users: USERS, kind: 'users' })],
    ['objects on lines', ndjson(USERS)],
  ])('of %s from standard input without --format', async (_what, input) => {
    const cwd = temporaryFolder()
    await stdoutOf(importingFrom(input, cwd, '-'))
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
  })

  test('of one row from standard input, without --format and an end of line', async () => {
    const cwd = temporaryFolder()
    await stdoutOf(importingFrom(JSON.stringify(ANN), cwd, '-'))
    expect(namesIn(cwd)).toEqual(['Ann'])
  })

  test('of one array among several, with --at', async () => {
    const text = pretty({ roles: [{ name: 'admin' }], users: USERS, data: { more: [BEA] } })
    const cwd = folderWith(text, 'users.json')
    expect(await stderrOf(importing(cwd, 'users.json'))).toBe(
      'users.json has arrays of objects at roles, users: add --at PATH, such as --at users\n',
    )
    await stdoutOf(importing(cwd, 'users.json', '--at', 'users'))
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
    const args = ['users.json', '--at', 'data.more', '--on-conflict', 'skip', '--restart']
    expect(await stdoutOf(importing(cwd, ...args))).toMatch(/^1 row, 0 created, 1 skipped; /)
  })

  test('of no rows', async () => {
    for (const text of ['[]', '{"users": []}']) {
      const cwd = folderWith(text, 'users.json')
      expect(await stdoutOf(importing(cwd, 'users.json'))).toMatch(/^0 rows, 0 created; /)
    }
  })

  test('and rejects rows that are no users, with the line on which each begins', async () => {
    const long = { name: 'x'.repeat(2 ** 20), email: 'x@example.com' }
    const cwd = folderWith(
      `[\n{},\n\n${pretty(ANN)}, [1\n], 7,\n${JSON.stringify(long)}]`,
      'users.json',
    )
    await stdoutOf(importing(cwd, 'users.json', '--rejects', 'rejects.ndjson'), 3)
    expect(rejectsIn(cwd)).toEqual([
      { line: 2, errors: { name: ["can't be blank"], email: ["can't be blank"] } },
      { line: 7, errors: { row: ['must be an object'] } },
      { line: 8, errors: { row: ['must be an object'] } },
      { line: 9, errors: { row: ['is longer than 1048576 bytes'] } },
    ])
    expect(namesIn(cwd)).toEqual(['Ann'])
  })
})

describe('import refuses JSON', () => {
  test.each<[what: string, text: string, args: string[], problem: string]>([
    ['an empty file', '', [], ' is not JSON: it ends at line 1 where a value should be'],
    ['CSV', 'name,email\n', [], ' is not JSON; for a CSV file, add --format csv'],
    ['a word', '\n{"a": x}', [], ' is not JSON: line 2 has something else where a value should be'],
    [
      'one object',
      pretty(ANN),
      [],
      ' is one object without an array of objects, so it has no rows',
    ],
    [
      'an array further inside',
      pretty({ data: { users: USERS } }),
      [],
      ' has arrays of objects at data.users: add --at PATH, such as --at data.users',
    ],
    ['an array with --at', '[]', ['--at', 'users'], ' is an array itself: leave --at out'],
    [
      'an object without the member of --at',
      '{"users": {}, "a": {"b": []}}',
      ['--at', 'users.b'],
      ' has no array at users.b',
    ],
  ])('that is %s', async (_what, text, args, problem) => {
    const cwd = folderWith(text, 'users.json')
    expect(await stderrOf(importing(cwd, 'users.json', ...args))).toBe(`users.json${problem}\n`)
  })

  test('that is one object with an array, named NDJSON', async () => {
    const cwd = folderWith(pretty({ users: USERS }), 'users.ndjson')
    const problem = 'is one object with arrays in it: add --format json to import one of them'
    expect(await stderrOf(importing(cwd, 'users.ndjson'))).toBe(`users.ndjson ${problem}\n`)
  })

  test('that is a stream too long to look for its array', async () => {
    const text = JSON.stringify({ skipped: 'x'.repeat(17 * 2 ** 20), users: USERS })
    const input = gzipSync(text, { level: 1 })
    const cwd = temporaryFolder()
    const args = ['import', '-', '--format', 'json']
    const { stderr } = await runCommand({ cwd, args, input })
    expect(stderr).toMatch(/^standard input is too long to look .+: add --at PATH, such as /)
    await runCommand({ cwd, args: [...args, '--at', 'users'], input })
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
  })
})

describe('a mistake in JSON ends the import, keeps the rows before it, and --resume continues', () => {
  const HINT = '; once that is fixed, --resume continues after the rows that are done'

  test.each<[what: string, wrong: string, problem: string]>([
    ['a row', ',\n{"name": Bea}]', 'the row that begins at line 2 has a mistake'],
    [
      'the comma',
      `\n${JSON.stringify(BEA)}]`,
      'line 2 has something else where a comma or ] should be',
    ],
    ['the quotes', ',\n{"name": "Bea}]', 'what begins at line 2 does not end'],
    ['the end', ',\n', 'it ends at line 2 where a value should be'],
  ])('in %s', async (_what, wrong, problem) => {
    const cwd = folderWith(`[${JSON.stringify(ANN)}${wrong}`, 'users.json')
    const { code, stderr } = await importing(cwd, 'users.json')
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `users.json is not JSON: ${problem}${HINT}\n`,
    })
    expect(namesIn(cwd)).toEqual(['Ann'])
    writeFileSync(join(cwd, 'users.json'), JSON.stringify(USERS))
    await stdoutOf(importing(cwd, 'users.json', '--resume'))
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
  })

  test('of a packed object, whose end is missing', async () => {
    const text = JSON.stringify({ users: manyRows(10) })
    const cwd = folderWith(gzipSync(text.slice(0, -20)), 'users.json.gz')
    expect((await importing(cwd, 'users.json.gz')).stderr).toMatch(/what begins at line 1 does not/)
    writeFileSync(join(cwd, 'users.json.gz'), gzipSync(text))
    expect(await stdoutOf(importing(cwd, 'users.json.gz', '--resume'))).toMatch(
      /^10 rows, 10 created; 9 of the rows by an earlier run; /,
    )
  })
})

test('JSON is read as JSON.parse reads it, wherever a chunk of the file ends', async () => {
  const space = fc.constantFrom('', ' ', '\n', '\r\n\t')
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.jsonValue(), { maxLength: 4 }),
      fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
      fc.string({ unit: fc.constantFrom('a', '"', '\\', '{', ']', 'é', '😀') }),
      fc.tuple(space, space, space),
      fc.integer({ min: 1, max: 10 }),
      async (rows, others, name, [before, between, after], piece) => {
        const { [name]: _, ...members } = others
        const array = `[${before}${rows.map(row => JSON.stringify(row)).join(`${between},${before}`)}${after}]`
        const quoted = JSON.stringify(name) + between
        const rest = JSON.stringify({ ...members, z: null }, undefined, after.length).slice(1)
        const bytes = Buffer.from(`{${before}${quoted}: {"in": ${array}}${after},${rest}`)
        async function* chunks(): AsyncGenerator<Buffer> {
          for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece)
        }
        const contents: unknown[] = []
        const rowsAt = [name, 'in']
        for await (const records of jsonRecords(chunks(), { file: 'users.json', rowsAt }))
          contents.push(...records.map(({ content }) => content))
        expect(contents).toEqual(rows.map(row => ({ row: JSON.parse(JSON.stringify(row)) })))
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
