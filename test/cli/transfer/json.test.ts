import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openJson } from '../../../src/cli/transfer/read-json.ts'
import { SEED } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { stderrOf, stdoutOf } from '../../support/run-command.ts'
import {
  folderWith,
  importing,
  importingFrom,
  namesIn,
  ndjson,
  readerOptions,
  refusalOf,
  rejectsIn,
  takenUsers,
  usersIn,
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
    ['an array', pretty(USERS), USERS],
    ['an object of many lines', pretty({ users: USERS }), USERS],
    ['an object on one line', JSON.stringify({ users: USERS, kind: 'users' }), USERS],
    ['objects on lines', ndjson(USERS), USERS],
    ['one row without an end of line', JSON.stringify(ANN), [ANN]],
  ])('of %s from standard input without --format', async (_what, input, users) => {
    const cwd = temporaryFolder()
    await stdoutOf(importingFrom(input, cwd, '-'))
    expect(usersIn(cwd)).toMatchObject(users)
  })

  test('of one array among several, with --at', async () => {
    const text = pretty({ roles: [{ name: 'admin' }], users: USERS, data: { more: [BEA] } })
    const cwd = folderWith(text, 'users.json')
    expect(await stderrOf(importing(cwd, 'users.json'))).toBe(
      'users.json has lists of objects at roles, users, data.more: add --at PATH, such as --at "users"\n',
    )
    await stdoutOf(importing(cwd, 'users.json', '--at', 'users'))
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
    const args = ['users.json', '--at', 'data.more', '--on-conflict', 'skip', '--restart']
    expect(await stdoutOf(importing(cwd, ...args))).toMatch(/^1 row, 0 created, 1 skipped; /)
  })

  test('of no rows', async () => {
    for (const text of ['[]', '{"users": []}'])
      expect(await takenUsers(text, 'users.json')).toEqual([])
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
      { line: 9, errors: { row: ['is longer than 1048576 characters'] } },
    ])
    expect(namesIn(cwd)).toEqual(['Ann'])
  })
})

describe('import refuses JSON', () => {
  test.each<[what: string, text: string, args: string[], problem: string]>([
    ['an empty file', '', [], ' is not JSON: it ends too early at line 1, character 1'],
    ['CSV', 'name,email\n', [], ' is not JSON; for a CSV file, add --format csv'],
    ['a word', '\n{"a": x}', [], ' is not JSON: there is a mistake at line 2, character 7'],
    [
      'an array further inside',
      pretty({ data: { users: USERS } }),
      [],
      ' has lists of objects at data.users: add --at PATH, such as --at "data.users"',
    ],
    ['an array with --at', '[]', ['--at', 'users'], ' is an array itself: leave --at out'],
    [
      'an object without the member of --at',
      '{"users": {}, "a": {"b": []}}',
      ['--at', 'users.b'],
      ' has no list of users at users.b; it has lists of objects at a.b: add --at PATH, such as --at "a.b"',
    ],
    [
      'one object with an array, named NDJSON',
      pretty({ users: USERS }),
      ['--format', 'ndjson'],
      ' is one object with lists in it: add --format json to import one of them',
    ],
  ])('that is %s', async (_what, text, args, problem) => {
    expect(await refusalOf(text, 'users.json', ...args)).toBe(`users.json${problem}\n`)
  })

  test('that is one object, and takes it as a user once told', async () => {
    const text = pretty({ ...ANN, tags: ['a'] })
    expect(await refusalOf(text, 'users.json')).toBe(
      'users.json is one object without an array of objects: if it is a user, add --format ndjson\n',
    )
    expect(await takenUsers(text, 'users.json', '--format', 'ndjson')).toMatchObject([ANN])
  })

  test('that is too long for a string, and says how to make NDJSON of it', () => {
    const part = `[{"name":"${'x'.repeat(1_000_000)}"},`
    const reader = openJson(part, readerOptions('users.json.gz', { at: '2.a b' }))
    for (let count = 0; count < 499; count++) reader.push(part)
    expect(() => reader.push(part)).toThrow(
      `users.json.gz is longer than 500,000,000 bytes; NDJSON may have any length: ` +
        `gunzip -c "users.json.gz" | jq -c '.[2]["a b"][]' > users.ndjson`,
    )
  })

  test.each([
    ['a row', ',\n{"name": Bea}]', 'there is a mistake at line 2, character 10'],
    ['the comma', `\n${JSON.stringify(BEA)}]`, 'there is a mistake at line 2, character 1'],
    ['the quotes', ',\n{"name": "Bea}]', 'there is a mistake at line 2, character 10'],
    ['the end', ',\n', 'it ends too early at line 2, character 1'],
    ['a comment', '// no]', 'there is a mistake at line 1, character 42'],
  ])('with a mistake in %s before anything is written', async (_what, wrong, problem) => {
    const said = await refusalOf(`[${JSON.stringify(ANN)}${wrong}`, 'users.json')
    expect(said).toBe(`users.json is not JSON: ${problem}\n`)
  })
})

test('JSON is read as JSON.parse reads it, and refused where JSON.parse refuses it', () => {
  const space = fc.constantFrom('', ' ', '\n', '\r\n\t')
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue(), { maxLength: 4 }),
      fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
      fc.string({ unit: fc.constantFrom('a', '"', '\\', '{', ']', 'é', '😀') }),
      fc.tuple(space, space, space),
      fc.tuple(fc.nat(), fc.constantFrom('', '', ',', '"', '}', '1', '-', '\\', '\u0001')),
      (rows, others, name, [before, between, after], [place, wrong]) => {
        const { [name]: _, ...members } = others
        const array = `[${before}${rows.map(row => JSON.stringify(row)).join(`${between},${before}`)}${after}]`
        const quoted = JSON.stringify(name) + between
        const rest = JSON.stringify({ ...members, z: null }, undefined, after.length).slice(1)
        const right = `{${before}${quoted}: {"in": ${array}}${after},${rest}`
        const at = place % right.length
        const text = right.slice(0, at) + wrong + right.slice(at)
        const read = () => {
          const reader = openJson(text, readerOptions('users.json', { at: `${name}.in` }))
          reader.push(text)
          return [...reader.end()].flat().map(({ content }) => content)
        }
        if (isJson(text) && wrong === '')
          expect(read()).toEqual(rows.map(row => ({ row: JSON.parse(JSON.stringify(row)) })))
        else if (!isJson(text)) expect(read).toThrow('users.json is not JSON')
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
