import { expect } from 'vitest'
import { linksOf } from '../support/list-pages.ts'
import { placeOf, type UserModel, wordsIn } from './user-model.ts'
import { type Dice, expectStatus, NAMES, type Step } from './user-steps.ts'

const SORT_NAMES = ['id', 'name', 'email', 'created_at', 'updated_at'] as const

const WRONG = ['per_page=0', 'sort=password', 'after=x', 'created_after=now', 'q=%22*%22']

/** Also one that no user has. */
const ASKED = ['user', 'COM', 'user1', 'ann', 'Änn', 'o', "O'B", 'sam user', 'zoe*', 'nobody']

/** At most this many places are remembered. */
const MAX_CURSORS = 50

/** A page of users, with every kind of parameter. */
export function listUsers(dice: Dice, model: UserModel): Step {
  const cursor = dice.in100(40) && model.cursors.length > 0 ? dice.pick(model.cursors) : undefined
  const sort = cursor?.sort ?? (dice.in100(50) ? '-' : '') + dice.pick(SORT_NAMES)
  const page = cursor === undefined && dice.in100(40) ? 1 + dice.below(5) : undefined
  const perPage = dice.in100(80) ? 1 + dice.below(12) : dice.pick([100, 1000])
  const filters = {
    ...(dice.in100(40) && { q: someWords(dice, model) }),
    ...(dice.in100(50) && someFilters(dice, model)),
  }
  const isCounted = dice.in100(40)
  const isWrapped = dice.in100(30)
  const wrong = dice.in100(4) ? [dice.pick(WRONG)] : []
  const parameters = {
    ...((sort !== 'id' || cursor !== undefined) && { sort }),
    ...(perPage !== 100 && { per_page: perPage }),
    ...(page !== undefined && { page }),
    ...(cursor !== undefined && { after: cursor.text }),
    ...filters,
    ...(isCounted && { count: true }),
    ...(isWrapped && { envelope: true }),
  }
  const pairs = Object.entries(parameters).map(
    ([name, value]) => `${name}=${encodeURIComponent(value)}`,
  )
  const { headers, isKnown } = condition(dice, model)

  return {
    asked: { method: 'GET', path: `/users?${[...pairs, ...wrong].join('&')}`, headers },
    check: answer => {
      if (wrong.length > 0) return expectStatus(answer, 400)
      expectListTag(model, answer.headers.etag ?? '')
      if (isKnown) return expectStatus(answer, 304)
      expectStatus(answer, 200)
      const all = model.list(sort, filters)
      const behind = cursor === undefined ? all : all.filter(user => model.isBehind(user, cursor))
      const start = ((page ?? 1) - 1) * perPage
      const users = behind.slice(start, start + perPage)
      const hasMore = behind.length > start + perPage
      const envelope = {
        data: users,
        ...(cursor === undefined && { page: page ?? 1 }),
        has_more: hasMore,
        ...(isCounted && { total_count: all.length }),
      }
      expect(JSON.parse(answer.body)).toEqual(isWrapped ? envelope : users)
      expect(answer.headers['x-total-count']).toBe(isCounted ? String(all.length) : undefined)
      const links = linksOf(answer.headers.link)
      const relations = { first: page, next: hasMore, prev: page !== undefined && page > 1 }
      const expected = Object.entries(relations).flatMap(([name, isThere]) => (isThere ? name : []))
      expect(Object.keys(links).toSorted()).toEqual(expected)
      const last = users.at(-1)
      const text = new URLSearchParams(links.next?.split('?')[1]).get('after')
      if (last === undefined || text === null) return
      model.cursors.push({ text, sort, ...placeOf(sort, last) })
      if (model.cursors.length > MAX_CURSORS) model.cursors.shift()
    },
  }
}

function someFilters(dice: Dice, model: UserModel) {
  const users = [...model.users.values()].map(({ shown }) => shown)
  const { id, email, created_at, updated_at } = users.length === 0 ? NOBODY : dice.pick(users)
  return {
    ...(dice.in100(20) &&
      (id % 2 === 0
        ? {
            id: `${id},${users.flatMap(user => (user.id % 3 === 0 ? user.id : [])).slice(0, 400) || 7}`,
          }
        : { email: `nobody@x.co,${email.toUpperCase()}` })),
    ...(dice.in100(40) && { name: dice.pick(NAMES) }),
    ...(dice.in100(25) && { created_after: created_at }),
    ...(dice.in100(25) && { created_before: created_at }),
    ...(dice.in100(25) && { updated_after: updated_at }),
    ...(dice.in100(25) && { updated_before: updated_at }),
  }
}

const TIME = '2026-01-31T12:00:00.000Z'

const NOBODY = { id: 7, email: 'x@example.com', created_at: TIME, updated_at: TIME }

/** Mostly beginnings of words of a user, in any order. */
function someWords(dice: Dice, model: UserModel): string {
  const users = [...model.users.values()].map(({ shown }) => shown)
  if (users.length === 0 || dice.in100(30)) return dice.pick(ASKED)
  const { name, email } = dice.pick(users)
  const words = wordsIn(`${name} ${email}`)
  const asked = Array.from({ length: 1 + dice.below(3) }, () => {
    const word = dice.pick(words)
    return word.slice(0, 1 + dice.below(word.length))
  })
  return asked.join(dice.pick([' ', '.', "'"]))
}

function condition(dice: Dice, { listTag, oldListTags }: UserModel) {
  const old = oldListTags.length === 0 ? '"x"' : dice.pick(oldListTags.slice(-20))
  const roll = dice.below(10)
  const none: Readonly<Record<string, string>> = {}
  if (roll < 4) return { headers: none, isKnown: false }
  if (roll < 5) return { headers: { 'If-None-Match': '*' }, isKnown: true }
  const isKnown = roll >= 8 && listTag !== undefined
  return { headers: { 'If-None-Match': isKnown ? `${old}, ${listTag}` : old }, isKnown }
}

/** The revision changes after each change, and only then, for every list. */
function expectListTag(model: UserModel, tag: string): void {
  if (model.listTag !== undefined) expect(tag).toBe(model.listTag)
  else expect(model.oldListTags).not.toContain(tag)
  model.listTag = tag
}
