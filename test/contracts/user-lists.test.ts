import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ImportedUser } from '../../src/users/transfer/user-import-store.ts'
import type { UserFilters, UserQuery, UserRepository } from '../../src/users/user-repository.ts'
import { foldCase, MAX_NAME_CHARS } from '../../src/users/user-schemas.ts'
import { firstChars, parseAskedWords, wordsOfUser } from '../../src/users/words.ts'
import { createUser } from '../support/create-user.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { importUsers } from '../support/import-users.ts'
import { openSqliteStored, openStored } from '../support/stored.ts'
import {
  ALL,
  type Asked,
  at,
  idsOf,
  idsOfWhole,
  positionOf,
  type ShownUser,
  SORTS,
  scanOf,
} from '../support/user-scan.ts'

const named = (name: string, email: string) => ({ name, email, passwordDigest: null })

async function listed(repository: UserRepository, query: Partial<UserQuery> = {}) {
  const { json } = await repository.list({ ...ALL, withTotal: false, ...query })
  return JSON.parse(json) as ShownUser[]
}

/** Expects pages of a list, from the start of the query on, to have these ids and no others. Returns where the next one begins. */
async function expectPages(
  repository: UserRepository,
  query: UserQuery,
  ids: readonly number[],
  { maxPages = Number.POSITIVE_INFINITY, total = ids.length } = {},
): Promise<UserQuery['start'] | undefined> {
  const count = Math.min(maxPages, Math.max(1, Math.ceil(ids.length / query.limit)))
  const pages: number[][] = []
  const totals = new Set<number | undefined>()
  let start: UserQuery['start'] | undefined = query.start
  // One page more than there are would be wrong, and may have no end.
  for (; start !== undefined && pages.length < Math.min(maxPages, count + 1); ) {
    const { json, total, next } = await repository.list({ ...query, start })
    pages.push(idsOf(json))
    totals.add(total)
    start = next
  }
  const page = (nth: number) => ids.slice(nth * query.limit, (nth + 1) * query.limit)
  expect(pages).toEqual(Array.from({ length: count }, (_, nth) => page(nth)))
  expect([...totals]).toEqual([query.withTotal ? total : undefined])
  return start
}

/** Too many to find those of a common word first and then sort them. */
const MANY = byEngine({ sqlite: 3000, postgres: 21_000 })

/** Far apart, and up to the greatest. */
function idOf(nth: number): number {
  if (nth < MANY / 2) return nth
  return nth < MANY ? nth ** 3 : Number.MAX_SAFE_INTEGER
}

/** Half are Ann, half are Bob, few are both. Some are greater than all others, by code points and by halves of characters. */
function nameOf(nth: number): string {
  if (nth % 750 === 7) return 'Ann Bob'
  if (nth % 750 === 8) return '\u{10ffff}'.repeat(nth === 8 ? MAX_NAME_CHARS : 3)
  if (nth % 750 === 9) return '\uffee'
  return `${nth % 2 === 0 ? 'Ann' : 'Bob'} ${'zyx'[nth % 3]}${nth % 50}`
}

/** All have a long word in common. */
function emailOf(nth: number): string {
  const rare = nth % 100 === 0 ? 'est.rare' : 'er'
  const late = nth > MANY / 4 ? 'late' : 'early'
  return `commonbutlong${rare}.${late}.u${(nth * 7919) % MANY}x${nth}@x.co`
}

const MANY_USERS: readonly ShownUser[] = Array.from({ length: MANY }, (_, index) => ({
  ...{ id: idOf(index + 1), name: nameOf(index + 1), email: emailOf(index + 1) },
  ...{ created_at: at(((index + 1) * 37) % MANY), updated_at: at(((index + 1) * 53) % MANY) },
}))

const MANY_FILTERS: readonly UserFilters[] = [
  {},
  { name: 'ann z0' },
  { name: 'ann bob' },
  { emails: [emailOf(300), 'nobody@x.co'] },
  { ids: Array.from({ length: 400 }, (_, nth) => idOf(nth * 7 + 1)), created_after: at(500) },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(500) },
  { created_after: at((MANY * 5) / 6) },
  { updated_before: at(100), created_after: at(20) },
  { updated_after: at(MANY / 3), created_before: at((MANY * 2) / 3) },
]

const MANY_WORDS =
  `|ann|ann bob|bob z|commonbutlong|commonbutlongest bob|rare|rare early|late|x late ann|u1 ann|nobody
  |bob nobody`
    .split('|')
    .map(words => words.split(' ').filter(word => word.trim() !== ''))

test('a list of many users is what a scan finds, from each place, in each order', async () => {
  const { storage } = await openStored()
  const { users, imports } = storage
  const rows = MANY_USERS.map(({ created_at, updated_at, ...user }): ImportedUser => {
    return { ...user, createdAt: created_at, updatedAt: updated_at }
  })
  for (let from = 0; from < MANY; from += 3000) {
    await importUsers(imports, rows.slice(from, from + 3000))
  }
  const { find, sorted } = scanOf(MANY_USERS)
  const inEachOrder = MANY_FILTERS.flatMap(filters =>
    SORTS.map(sort => ({ words: [], filters, sort })),
  )
  // All words meet all filters, and both meet all orders.
  const asked: readonly Asked[] = [
    ...byEngine({ sqlite: inEachOrder, postgres: [] }),
    ...MANY_WORDS.flatMap((words, row) =>
      MANY_FILTERS.map((filters, column) => {
        return { words, filters, sort: SORTS[(row + column) % SORTS.length] ?? ALL.sort }
      }),
    ),
  ]
  const wholes = new Set<string>()
  for (const each of asked) {
    const ids = find(each)
    // A whole list has one order.
    const whole = JSON.stringify({ ...each, sort: undefined })
    if (!wholes.has(whole)) {
      expect(await idsOfWhole(users, each)).toEqual(find({ ...each, sort: ALL.sort }))
    }
    wholes.add(whole)
    const query: UserQuery = { ...ALL, ...each, limit: 700 }
    const start = await expectPages(users, query, ids, { maxPages: 1 })
    if (start !== undefined) {
      const second = { ...query, start, withTotal: false }
      await expectPages(users, second, ids.slice(700), { maxPages: 1 })
    }
    for (const offset of [40, 1000, 2100]) {
      const page: UserQuery = { ...query, start: { offset }, limit: 3 }
      await expectPages(users, page, ids.slice(offset), { maxPages: 1, total: ids.length })
    }
    // Filters may change between two pages, so that a cursor may be outside of their range.
    const place = positionOf(sorted(each.sort)[MANY / 3] as ShownUser, each.sort)
    const outside = { ...query, start: place, limit: 5, withTotal: false }
    await expectPages(users, outside, find(each, MANY / 3 + 1), { maxPages: 1 })
  }
})

test('a cursor of other filters goes on where theirs begin', async () => {
  const { storage } = await openStored()
  const rows = [1, 2, 3].map(id => {
    return { ...named(`Filled ${id}`, `u${id}@x.co`), id, createdAt: at(id), updatedAt: at(id) }
  })
  await importUsers(storage.imports, rows)
  const find = async (query: Partial<UserQuery>) =>
    (await listed(storage.users, query)).map(({ id }) => id)
  const sort = { by: 'created_at', descending: false } as const
  const [after1, before2] = [{ created_after: at(1) }, { created_before: at(2) }]
  expect(await find({ sort, start: { key: at(0), id: 9 }, filters: after1 })).toEqual([2, 3])
  expect(await find({ sort, start: { key: at(2), id: 2 }, filters: after1 })).toEqual([3])
  const backwards = { ...sort, descending: true }
  expect(await find({ sort: backwards, start: { key: at(9), id: 1 }, filters: before2 })).toEqual([
    1,
  ])
  const ofOne = { filters: { name: 'filled 2' } }
  const byName = { ...ofOne, sort: { by: 'name', descending: false } as const }
  expect(await find({ ...byName, start: { key: 'filled 1', id: 3 } })).toEqual([2])
  expect(await find({ ...byName, start: { key: 'filled 2', id: 1 } })).toEqual([2])
  expect(await find({ ...byName, start: { key: 'filled 2', id: 2 } })).toEqual([])
  expect(await find({ ...ofOne, start: { key: '', id: 1 } })).toEqual([2])
  expect(await find({ ...ofOne, start: { key: '', id: 2 } })).toEqual([])
})

/** Names with what makes words hard: scripts, accents, ligatures, marks, few and many words. */
const NAMES =
  `Ada Lovelace | Zoë Lovegood | ZOË | Zoe\u0308 Adams | Łukasz Żółć | Søren Ærø | Þórður | Straße | STRASSE 9 | Strasser
  | İpek | ipek Işık | Nguyễn Thị Ánh | O'Brien | Anne-Marie | Jean\u00adLuc | Ὀδυσσεύς | ΟΔΥΣΣΕΥΣ | Фёдор | ФЕДОР Андреевич
  | أحمد | احمد محمد | أَحْمَد | שָׁלוֹם כהן | שלום | 王小明 | 王小 | 小明 | 山田 太郎 | ガブリエル | ｶﾞﾌﾞﾘｴﾙ | カブリエル | 김철수 | 김 철수
  | हिन्दी | कि | कीर्ति | สมชาย | ＡＤＡ | ﬁn | 𝔸da | 😀 | 😀 Ada | "ada" OR * | 42 | ٤٢ | a b c d e f g h i j
  | Adalbert Adam Adams | annabel ann an | Alexandria Alexander Alexis`
    .split('|')
    .map(name => name.trim())
    .concat('x'.repeat(70), `${'x'.repeat(64)}y`)

const USERS = 150

/** Queries whose words, filters and bounds are mostly those of users. */
function queriesOf(users: readonly ShownUser[]): fc.Arbitrary<UserQuery> {
  const user = fc.constantFrom(...users)
  const beginnings = user.chain(one => {
    const begun = fc
      .tuple(fc.constantFrom(...wordsOfUser(one).split(' ')), fc.integer({ min: 1, max: 12 }))
      .map(([word, count]) => firstChars(word, count))
    return fc.array(begun, { minLength: 1, maxLength: 4 })
  })
  const odd = fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }), { maxLength: 2 })
  const words = fc
    .oneof(
      { weight: 4, arbitrary: beginnings },
      {
        weight: 3,
        arbitrary: fc.tuple(beginnings, beginnings).map(([[one], [two]]) => [one, two]),
      },
      { weight: 1, arbitrary: odd },
    )
    .map(asked => parseAskedWords(asked.join(' ')).words)
  const rarely = <T>(arbitrary: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })
  const filters = fc.record<{ [Name in keyof UserFilters]-?: UserFilters[Name] }>({
    ids: rarely(fc.array(user.map(({ id }) => id))),
    emails: rarely(fc.array(user.map(({ email }) => email.toLowerCase()))),
    name: rarely(user.map(({ name }) => foldCase(name))),
    created_after: rarely(user.map(({ created_at }) => created_at)),
    created_before: rarely(user.map(({ created_at }) => created_at)),
    updated_after: rarely(user.map(({ updated_at }) => updated_at)),
    updated_before: rarely(user.map(({ updated_at }) => updated_at)),
  })
  return fc.record({
    sort: fc.constantFrom(...SORTS),
    filters,
    words,
    limit: fc.constantFrom(1, 2, 7, 100),
    start: fc.oneof(fc.constant(0), fc.nat(12)).map(offset => ({ offset })),
    withTotal: fc.boolean(),
  })
}

/** SQLite in memory has one connection, so its lists are made without a thread. */
const PLACES = byEngine({ sqlite: ['a file', 'memory'], postgres: ['PostgreSQL'] })

describe.each(PLACES)('UserRepository.list in %s', place => {
  async function opened() {
    const clock = createFakeClock()
    const options = { now: clock.now }
    const inMemory = () => openSqliteStored(':memory:', options)
    const storage = place === 'memory' ? await inMemory() : (await openStored(options)).storage
    return { repository: storage.users, clock }
  }

  test.each([[[]], [['ada']], [['exam', 'ad']]])(
    'a list by e-mail with the words %j goes on behind the e-mail of its position, whoever has it now',
    async words => {
      const { repository } = await opened()
      for (const letter of 'abc')
        await createUser(repository, named('Ada', `${letter}@example.com`))
      for (const filters of [{}, { name: 'ada' }, { created_after: '2000-01-01T00:00:00.000Z' }]) {
        for (const id of [1, 2, 99]) {
          const start = { key: 'b@example.com', id }
          const emails = async (descending: boolean) => {
            const query = { sort: { by: 'email', descending } as const, words, filters, start }
            return (await listed(repository, query)).map(({ email }) => email)
          }
          expect(await emails(false)).toEqual(['c@example.com'])
          expect(await emails(true)).toEqual(['a@example.com'])
        }
      }
    },
  )

  test('a list with any words, filters, sort and place is what a scan finds, also after changes', async () => {
    const { repository, clock } = await opened()
    /** Ten at once, and a millisecond later the next ones. */
    const runInGroups = async (writes: readonly (() => Promise<unknown>)[]) => {
      for (let from = 0; from < writes.length; from += 10) {
        await Promise.all(writes.slice(from, from + 10).map(write => write()))
        clock.advance(1)
      }
    }
    const nameOf = (nth: number) => NAMES[nth % NAMES.length] as string
    const creates = Array.from({ length: USERS }, (_, nth) => () => {
      return createUser(repository, named(nameOf(nth), `${'abc'[nth % 3]}d.User${nth}@Example.org`))
    })
    await runInGroups(creates)
    const compare = async () => {
      const users = await listed(repository)
      const { find } = scanOf(users)
      const isScanned = fc.asyncProperty(queriesOf(users), async query => {
        const ids = find(query)
        const { offset } = query.start as { offset: number }
        await expectPages(repository, query, ids.slice(offset), { total: ids.length })
      })
      await fc.assert(isScanned, { numRuns: 150 })
      return users
    }
    const users = await compare()
    const changes = users.map(({ id }) => () => {
      if (id % 5 === 0) return repository.delete(id)
      if (id % 3 === 0) return repository.update(id, { name: nameOf(id * 7) })
      return repository.update(id, { email: `New.${id}@Example.net` })
    })
    await runInGroups(changes)
    await compare()
  })
})
