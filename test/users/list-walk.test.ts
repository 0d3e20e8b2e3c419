import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SORT_KEYS } from '../../src/users/user-repository.ts'
import { newUserBody } from '../support/builders.ts'
import { engine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { SEED } from '../support/faults.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../support/user-order.ts'

// Few names, so that many are equal, some only in lower case or beyond ASCII.
const names = fc.constantFrom(
  'ann',
  'Ann',
  'ANN',
  'bob',
  'Bob',
  'Ähn',
  'ähn',
  'zed',
  '😀',
  '\uffee',
)

const changes = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), name: names }),
  fc.record({ kind: fc.constant('rename' as const), which: fc.nat(), name: names }),
  fc.record({ kind: fc.constant('touch' as const), which: fc.nat() }),
  fc.record({ kind: fc.constant('delete' as const), which: fc.nat() }),
)

type Change = typeof changes extends fc.Arbitrary<infer T> ? T : never

const walks = fc.record({
  users: fc.array(fc.record({ name: names, isStable: fc.boolean(), laterMs: fc.nat(2) }), {
    minLength: 1,
    maxLength: 16,
  }),
  by: fc.constantFrom(...SORT_KEYS),
  descending: fc.boolean(),
  perPage: fc.integer({ min: 1, max: 5 }),
  filter: fc.constantFrom(
    '',
    'name=ANN',
    'created_after',
    'updated_before',
    'name=bob&created_after',
  ),
  changesByPage: fc.array(fc.array(changes, { maxLength: 3 }), { maxLength: 12 }),
})

/** On SQLite most of the time goes into commits. */
const QUICK = engine === 'sqlite' ? { DATABASE_URL: ':memory:' } : {}

test('following next visits every user that exists all the time once and in order, whatever changes meanwhile', async () => {
  const clock = createFakeClock()
  const { http } = await openTestApp({ now: clock.now, env: QUICK })

  async function create(name: string): Promise<ShownUser> {
    const response = await http.post('/users').send(newUserBody({ name }))
    expect(response.status).toBe(201)
    return response.body
  }

  async function apply(change: Change, volatile: ShownUser[]): Promise<void> {
    clock.advance(1)
    if (change.kind === 'create') {
      volatile.push(await create(change.name))
      return
    }
    const user = volatile[change.which % volatile.length]
    if (user === undefined) return
    if (change.kind === 'delete') {
      volatile.splice(volatile.indexOf(user), 1)
      await http.delete(`/users/${user.id}`)
    } else {
      const name = change.kind === 'rename' ? change.name : `${user.name}x`
      await http.put(`/users/${user.id}`).send({ user: { name } })
    }
  }

  const walkOnce = fc.asyncProperty(
    walks,
    async ({ users, by, descending, perPage, filter, changesByPage }) => {
      const stable: ShownUser[] = []
      const volatile: ShownUser[] = []
      for (const { name, isStable, laterMs } of users) {
        clock.advance(laterMs)
        ;(isStable ? stable : volatile).push(await create(name))
      }
      const bound =
        users.length > 1 ? (stable[Math.floor(stable.length / 2)]?.created_at ?? '') : ''
      const query = filter.replace(/(\w+_(?:after|before))/, `$1=${bound}`)
      const isWanted = ({ name, created_at, updated_at }: ShownUser) =>
        (!filter.includes('ANN') || name.toLowerCase() === 'ann') &&
        (!filter.includes('bob') || name.toLowerCase() === 'bob') &&
        (!filter.includes('created_after') || created_at > bound) &&
        (!filter.includes('updated_before') || updated_at < bound)
      fc.pre(!/_(after|before)=$/.test(query))

      const visited: ShownUser[] = []
      const pending = [...changesByPage]
      let target: string | undefined =
        `/users?sort=${descending ? '-' : ''}${by}&per_page=${perPage}&${query}`
      while (target !== undefined) {
        const response = await http.get(target)
        expect(response.status).toBe(200)
        visited.push(...response.body)
        target = /<([^>]*)>; rel="next"/.exec(response.headers.link ?? '')?.[1]
        for (const change of pending.shift() ?? []) await apply(change, volatile)
      }

      const lived = new Set(stable.map(({ id }) => id))
      expect(visited.filter(({ id }) => lived.has(id))).toEqual(
        stable.filter(isWanted).sort(byCodePoints({ by, descending })),
      )
      const left = [...stable, ...volatile].map(({ id }) => http.delete(`/users/${id}`))
      await Promise.all(left)
    },
  )
  await fc.assert(walkOnce, { numRuns: 40, seed: SEED })
})
