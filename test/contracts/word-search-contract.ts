import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { foldCase } from '../../src/users/user.ts'
import {
  type Position,
  SORT_KEYS,
  type UserFilters,
  type UserQuery,
  type UserRepository,
} from '../../src/users/user-repository.ts'
import { areBegun, firstChars, parseAskedWords, wordsOfUser } from '../../src/users/words.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { NAMES_OF_MANY_SCRIPTS } from '../support/names-of-many-scripts.ts'
import type { ShownUser } from '../support/user-order.ts'
import type { RepositoryHarness } from './user-repository-contract.ts'

const FIRST: UserQuery = {
  sort: { by: 'id', descending: false },
  filters: {},
  words: [],
  limit: 1000,
  start: { offset: 0 },
  withTotal: false,
}

const USERS = 150

/** What a plain scan of all users finds: the oracle for every engine. */
async function scan(repository: UserRepository, query: UserQuery): Promise<ShownUser[]> {
  const all = { ...query, words: [], limit: 1000, start: { offset: 0 }, withTotal: false }
  const users: ShownUser[] = JSON.parse((await repository.list(all)).json)
  return users.filter(user => areBegun(wordsOfUser(user), query.words))
}

/** The ids that pages of `limit` users have, and the totals that they tell. */
async function walk(repository: UserRepository, query: UserQuery) {
  const ids: number[] = []
  const totals = new Set<number | undefined>()
  let start: Position | UserQuery['start'] | undefined = query.start
  while (start !== undefined) {
    const page = await repository.list({ ...query, start })
    const found: ShownUser[] = JSON.parse(page.json)
    expect(found.length).toBeLessThanOrEqual(query.limit)
    ids.push(...found.map(({ id }) => id))
    totals.add(page.total)
    start = page.next
  }
  return { ids, totals: [...totals] }
}

/** Queries whose words, filters and bounds are mostly those of users. */
function queriesOf(users: readonly ShownUser[]): fc.Arbitrary<UserQuery> {
  const user = fc.constantFrom(...users)
  const begun = fc
    .tuple(user.map(wordsOfUser), fc.nat(), fc.integer({ min: 1, max: 9 }))
    .map(([words, index, count]) => firstChars(words[index % words.length] ?? 'x', count))
  const ofOne = fc
    .tuple(user.map(wordsOfUser), fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 12 }))))
    .map(([words, picks]) =>
      picks
        .slice(0, 4)
        .map(([index, count]) => firstChars(words[index % words.length] ?? 'x', count)),
    )
  const odd = fc.string({ unit: 'binary', minLength: 1, maxLength: 6 })
  const words = fc
    .oneof(
      { weight: 4, arbitrary: ofOne },
      { weight: 3, arbitrary: fc.array(begun, { minLength: 1, maxLength: 3 }) },
      { weight: 1, arbitrary: fc.array(odd, { minLength: 1, maxLength: 2 }) },
    )
    .map(asked => parseAskedWords(asked.join(' ')))
    .filter(parsed => 'words' in parsed)
    .map(parsed => ('words' in parsed ? parsed.words : []))
  const maybe = <T>(values: fc.Arbitrary<T>) =>
    fc.option(values, { nil: undefined, freq: 6 }).map(value => value)
  const rarely = <T>(values: fc.Arbitrary<T>) =>
    fc
      .tuple(fc.integer({ min: 0, max: 5 }), values)
      .map(([die, value]) => (die === 0 ? value : undefined))
  const filters: fc.Arbitrary<UserFilters> = fc.record({
    email: rarely(user.map(({ email }) => email.toLowerCase())),
    name: rarely(user.map(({ name }) => foldCase(name))),
    created_after: rarely(user.map(({ created_at }) => created_at)),
    created_before: rarely(user.map(({ created_at }) => created_at)),
    updated_after: rarely(user.map(({ updated_at }) => updated_at)),
    updated_before: rarely(user.map(({ updated_at }) => updated_at)),
  })
  return fc.record({
    sort: fc.record({ by: fc.constantFrom(...SORT_KEYS), descending: fc.boolean() }),
    filters,
    words,
    limit: fc.constantFrom(1, 2, 7, 100),
    start: maybe(fc.nat(12)).map(offset => ({ offset: offset ?? 0 })),
    withTotal: fc.boolean(),
  })
}

/** The tests of `UserQuery.words` that every adapter of `UserRepository` must pass. */
export function describeWordSearch({ name, open }: RepositoryHarness): void {
  let serial = 0

  async function opened() {
    const clock = createFakeClock()
    const { repository, close } = await open(clock.now)
    onTestFinished(close)
    return { repository, clock }
  }

  function newUser(userName: string, email = `u${serial++}@example.com`) {
    return { name: userName, email, passwordDigest: null }
  }

  async function found(repository: UserRepository, q: string, query: Partial<UserQuery> = {}) {
    const parsed = parseAskedWords(q)
    if ('error' in parsed) throw new Error(parsed.error)
    const { json } = await repository.list({ ...FIRST, ...query, words: parsed.words })
    return (JSON.parse(json) as ShownUser[]).map(user => user.name)
  }

  describe(`UserQuery.words in ${name}`, () => {
    test('a write that is refused leaves the words as they were', async () => {
      const { repository } = await opened()
      const ann = await repository.create(newUser('Ann', 'ann@example.com'))
      const results = await Promise.allSettled([
        repository.create(newUser('Bea')),
        repository.create(newUser('Refused', 'ANN@example.com')),
        repository.create(newUser('Cid', 'cid@example.com')),
        repository.update(ann.id, { name: 'Refused', email: 'cid@example.com' }),
        repository.update(ann.id, { name: 'Dora' }),
        repository.delete(ann.id, ['another version']),
      ])
      expect(results.map(({ status }) => status === 'fulfilled')).toEqual([
        true,
        false,
        true,
        false,
        true,
        false,
      ])
      expect(await found(repository, 'refused')).toEqual([])
      expect((await found(repository, 'bea')).length).toBe(1)
      expect(await found(repository, 'dora ann example')).toEqual(['Dora'])
      expect(await found(repository, 'cid')).toEqual(['Cid'])
    })

    test('many creates, updates and deletes at once leave the words of the users that are left', async () => {
      const { repository } = await opened()
      const created = await Promise.all(
        Array.from({ length: 200 }, (_, index) => repository.create(newUser(`Anna${index}`))),
      )
      const ids = created.map(({ id }) => id)
      await Promise.all([
        ...ids.filter(id => id % 3 === 0).map(id => repository.delete(id)),
        ...ids.filter(id => id % 2 === 0).map(id => repository.update(id, { name: `Bert${id}` })),
        ...ids.filter(id => id % 4 === 0).map(id => repository.update(id, { name: `Carl${id}` })),
        ...ids.filter(id => id % 5 === 0).map(id => repository.delete(id)),
        repository.create(newUser('Anna')),
      ])
      for (const q of ['ann', 'anna', 'bert', 'carl', 'carl8', 'anna1']) {
        const query = { ...FIRST, words: [q] }
        const names = (await scan(repository, query)).map(user => user.name)
        expect(await found(repository, q)).toEqual(names)
      }
    })

    test('a page of found users has the revision of the users, and a total on request', async () => {
      const { repository } = await opened()
      for (let count = 0; count < 5; count++) await repository.create(newUser('Ada'))
      await repository.create(newUser('Bea'))
      const query = { ...FIRST, words: ['ada'], limit: 2, withTotal: true }
      const page = await repository.list(query)
      expect(page).toMatchObject({ total: 5, revision: await repository.revision() })
      expect(await repository.list({ ...query, withTotal: false })).toEqual({
        ...page,
        total: undefined,
      })
      const none = await repository.list({ ...query, words: ['zoe'] })
      expect(none).toMatchObject({ json: '[]', next: undefined, total: 0 })
      const past = await repository.list({ ...query, start: { offset: 999_999_999_998_000 } })
      expect(past).toMatchObject({ json: '[]', next: undefined, total: 5 })
    })

    test('a list by e-mail goes on behind the e-mail of its position, whoever has it now', async () => {
      const { repository } = await opened()
      for (const letter of 'abc') await repository.create(newUser('Ada', `${letter}@example.com`))
      const someFilters = [{}, { name: 'ada' }, { created_after: '2000-01-01T00:00:00.000Z' }]
      for (const words of [[], ['ada'], ['exam', 'ad']]) {
        for (const filters of someFilters) {
          const emailsAfter = async (descending: boolean, id: number) => {
            const sort = { by: 'email', descending } as const
            const start = { key: 'b@example.com', id }
            const query = { ...FIRST, sort, words, filters, start }
            const users: ShownUser[] = JSON.parse((await repository.list(query)).json)
            return users.map(({ email }) => email)
          }
          for (const id of [1, 2, 3, 99]) {
            expect(await emailsAfter(false, id)).toEqual(['c@example.com'])
            expect(await emailsAfter(true, id)).toEqual(['a@example.com'])
          }
        }
      }
    })

    test('list finds with any words, filters, sort and place what a plain scan finds', async () => {
      const { repository, clock } = await opened()
      /** Ten at once, and a millisecond later the next ones. */
      const runInGroups = async (writes: readonly (() => Promise<unknown>)[]) => {
        for (let from = 0; from < writes.length; from += 10) {
          await Promise.all(writes.slice(from, from + 10).map(write => write()))
          clock.advance(1)
        }
      }
      const creates = Array.from({ length: USERS }, (_, count) => () => {
        const userName = NAMES_OF_MANY_SCRIPTS[count % NAMES_OF_MANY_SCRIPTS.length] as string
        return repository.create(newUser(userName, `${'abc'[count % 3]}d.User${count}@Example.org`))
      })
      await runInGroups(creates)
      const compare = async (numRuns: number) => {
        const users = await scan(repository, FIRST)
        await fc.assert(
          fc.asyncProperty(queriesOf(users), async query => {
            const expected = (await scan(repository, query)).map(({ id }) => id)
            const { offset } = query.start as { offset: number }
            const { ids, totals } = await walk(repository, query)
            expect(ids).toEqual(expected.slice(offset))
            expect(totals).toEqual([query.withTotal ? expected.length : undefined])
          }),
          { numRuns },
        )
        return users
      }
      const users = await compare(200)
      const changes = users.map(({ id }) => () => {
        const other = NAMES_OF_MANY_SCRIPTS[(id * 7) % NAMES_OF_MANY_SCRIPTS.length] as string
        if (id % 5 === 0) return repository.delete(id)
        if (id % 3 === 0) return repository.update(id, { name: other })
        return repository.update(id, { email: `New.${id}@Example.net` })
      })
      await runInGroups(changes)
      await compare(200)
    })
  })
}
