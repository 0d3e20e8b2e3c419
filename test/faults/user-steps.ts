import { expect } from 'vitest'
import { entityTag } from '../../src/http/headers.ts'
import { storedUser } from '../../src/users/stored-user.ts'
import type { Asked } from '../support/keep-alive-client.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import { listUsers } from './user-list-steps.ts'
import type { ModelUser, UserModel } from './user-model.ts'

/** A request, and a check of its response: throws if the model expects another one, and updates the model. */
export interface Step {
  readonly asked: Asked
  check(answer: RawAnswer): void
}

export type Dice = ReturnType<typeof createDice>

/** Random choices. */
export function createDice(random: () => number) {
  const below = (count: number) => Math.floor(random() * count)
  return {
    /** A whole number from 0 to below `count`. */
    below,
    /** True in this many of a hundred cases. */
    in100: (share: number) => below(100) < share,
    pick: <T>(from: readonly T[]) => from[below(from.length)] as T,
  }
}

/** Few names, so that many are equal, some of them only when case is ignored. */
export const NAMES =
  `Ann|ANN|ann|Bob|bob|Ähn|ähn|Sam|ſam|zed|😀|\uffee|µm|Μm|μm|ϑ"|θ"|Θ"|back\\slash
Ann-Zoë O'Bob|Sam Ähnlich|ＺＯＥ 9`.split(/[|\n]/)

const EMAILS = Array.from({ length: 60 }, (_, serial) => `user${serial}@example.com`)

/** Passwords are few, because hashing each one takes time. */
const PASSWORDS = ['correct horse', 'battery staple']

const KEYS = 400

/** The number of users stays near this. */
const POPULATION = 40

const TAKEN = 'has already been taken'

/** The next thing that a client does. */
export function nextStep(dice: Dice, model: UserModel): Step {
  const roll = dice.below(100)
  if (roll < 25) {
    if (model.users.size > POPULATION) return remove(dice, model)
    return dice.in100(10) ? createMany(dice, model) : create(dice, model)
  }
  if (roll < 50) return change(dice, model)
  if (roll < 58) return remove(dice, model)
  if (roll < 72) return read(dice, model)
  return listUsers(dice, model)
}

function create(dice: Dice, model: UserModel): Step {
  const key = dice.in100(40) ? `key-${dice.below(KEYS)}` : undefined
  const kept = key === undefined ? undefined : model.keys.get(key)
  const user = newFields(dice)
  const body = kept && dice.in100(60) ? kept.body : JSON.stringify({ user })
  const headers = key === undefined ? {} : { 'Idempotency-Key': key }
  return {
    asked: { method: 'POST', path: '/users', headers, body },
    check: answer => {
      const isReplayed = answer.headers['idempotency-replayed']
      if (kept !== undefined) {
        if (!model.users.has(kept.shown.id)) return expectStatus(answer, 410)
        if (kept.body !== body) return expectStatus(answer, 422)
        expect(isReplayed).toBe('true')
        return expectUser(answer, 201, kept)
      }
      expect(isReplayed).toBeUndefined()
      const errors = errorsOf(user, model.isTaken(user.email))
      if (errors !== undefined) return expectErrors(answer, errors)
      expectStatus(answer, 201)
      const lastId = model.ids.at(-1) ?? 0
      const { shown, tag } = model.add(answer, user.password ?? null)
      const { id, created_at } = shown
      const { name, email } = user
      expect(shown).toEqual({ id, name, email, created_at, updated_at: created_at })
      expect(answer.headers.location).toBe(`/users/${id}`)
      expect(id).toBeGreaterThan(lastId)
      expect(created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      if (key !== undefined) model.keys.set(key, { body, shown, tag })
    },
  }
}

function newFields(dice: Dice) {
  return {
    name: dice.in100(4) ? ' ' : dice.pick(NAMES),
    email: anyCase(dice, dice.pick(EMAILS)),
    ...(dice.in100(8) && { password: dice.in100(50) ? null : dice.pick(PASSWORDS) }),
  }
}

/** Each of them is what it would be alone, one after the other. */
function createMany(dice: Dice, model: UserModel): Step {
  const users = Array.from({ length: 1 + dice.below(4) }, () => newFields(dice))
  return {
    asked: { method: 'POST', path: '/users', body: JSON.stringify({ users }) },
    check: answer => {
      expectStatus(answer, 200)
      const { data } = JSON.parse(answer.body)
      expect(data).toHaveLength(users.length)
      for (const [index, user] of users.entries()) {
        const { status, user: shown, errors } = data[index]
        expect(errors).toEqual(errorsOf(user, model.isTaken(user.email)))
        expect(status).toBe(errors === undefined ? 201 : 422)
        if (shown === undefined) continue
        const { id, created_at } = shown
        const { password = null, ...fields } = user
        expect(shown).toEqual({ id, ...fields, created_at, updated_at: created_at })
        expect(id).toBeGreaterThan(model.ids.at(-1) ?? 0)
        const body = JSON.stringify(shown)
        const etag = entityTag(storedUser(body).version)
        model.add({ ...answer, body, headers: { ...answer.headers, etag } }, password)
      }
    },
  }
}

function change(dice: Dice, model: UserModel): Step {
  const { id, user } = someone(dice, model)
  const { password, ...shownFields }: Fields = {
    ...(dice.in100(50) && { name: dice.in100(4) ? '' : dice.pick(NAMES) }),
    ...(dice.in100(30) && { email: anyCase(dice, dice.pick(EMAILS)) }),
    ...(dice.in100(12) && { password: dice.in100(40) ? null : dice.pick(PASSWORDS) }),
  }
  const { headers, isMet } = condition(dice, user)
  const body = JSON.stringify({ user: { ...shownFields, password } })
  return {
    asked: { method: dice.pick(['PUT', 'PATCH']), path: `/users/${id}`, headers, body },
    check: answer => {
      const isTaken = model.isTaken(shownFields.email, id)
      if (shownFields.name === '') return expectErrors(answer, errorsOf(shownFields, isTaken) ?? {})
      if (user === undefined) return expectStatus(answer, 404)
      if (!isMet) return expectStatus(answer, 412)
      if (isTaken) return expectErrors(answer, { email: [TAKEN] })
      const before = user.shown
      const expected = { ...before, ...shownFields }
      const isSame = expected.name === before.name && expected.email === before.email
      if (isSame && (password === undefined || password === user.password)) {
        return expectUser(answer, 200, user)
      }
      expectStatus(answer, 200)
      model.change(user, answer)
      if (password !== undefined) user.password = password
      expect(user.shown).toEqual({ ...expected, updated_at: user.shown.updated_at })
      expect(user.shown.updated_at > before.updated_at).toBe(true)
      expect(user.oldTags).not.toContain(user.tag)
    },
  }
}

function remove(dice: Dice, model: UserModel): Step {
  const { id, user } = someone(dice, model)
  const { headers, isMet } = condition(dice, user)
  return {
    asked: { method: 'DELETE', path: `/users/${id}`, headers },
    check: answer => {
      if (user === undefined) return expectStatus(answer, 404)
      if (!isMet) return expectStatus(answer, 412)
      expectStatus(answer, 204)
      model.remove(id)
    },
  }
}

function read(dice: Dice, model: UserModel): Step {
  const { id, user } = someone(dice, model)
  const { tag = '"x"', oldTags = [] } = user ?? {}
  const [ifNoneMatch, isKnown] = dice.pick<Condition>([
    ...NO_CONDITION.map(none => [none, false] as const),
    ...[tag, `W/${tag}`, `"x", ${tag}`, '*'].map(value => [value, true] as const),
    [oldTags.at(-1) ?? '"x"', false],
  ])
  const headers = ifNoneMatch === undefined ? {} : { 'If-None-Match': ifNoneMatch }
  return {
    asked: { method: 'GET', path: `/users/${id}`, headers },
    check: answer => {
      if (user === undefined) return expectStatus(answer, 404)
      if (!isKnown) return expectUser(answer, 200, user)
      expectStatus(answer, 304)
      expect(answer.headers.etag).toBe(tag)
    },
  }
}

/** Mostly an existing user, and often that of the last change. */
function someone(dice: Dice, model: UserModel): { id: number; user: ModelUser | undefined } {
  const there = [...model.users.keys()]
  const isThere = there.length > 0 && dice.in100(90)
  const anyone = dice.pick(isThere ? there : [...model.ids.slice(-20), 999_999_999])
  const id = dice.in100(40) ? model.lastChanged : anyone
  return { id, user: model.users.get(id) }
}

/** The value of a header, if it is sent, and whether its condition is true. */
type Condition = readonly [header: string | undefined, isSo: boolean]

const NO_CONDITION = [undefined, undefined]

function condition(dice: Dice, user: ModelUser | undefined) {
  const { tag = '"x"', oldTags = [] } = user ?? {}
  const [ifMatch, isMet] = dice.pick<Condition>([
    ...[...NO_CONDITION, undefined, tag, `"x", ${tag}`, '*'].map(value => [value, true] as const),
    ...[`W/${tag}`, oldTags.at(-1) ?? '"x"'].map(value => [value, false] as const),
  ])
  const headers: Record<string, string> = ifMatch === undefined ? {} : { 'If-Match': ifMatch }
  return { headers, isMet }
}

interface Fields {
  readonly name?: string
  readonly email?: string
  readonly password?: string | null
}

function errorsOf({ name }: Fields, isTaken: boolean): object | undefined {
  const errors = {
    ...(name?.trim() === '' && { name: ["can't be blank"] }),
    ...(isTaken && { email: [TAKEN] }),
  }
  return Object.keys(errors).length === 0 ? undefined : errors
}

function anyCase(dice: Dice, text: string): string {
  return dice.in100(20) ? text.toUpperCase() : text
}

export function expectStatus({ status, body }: RawAnswer, expected: number): void {
  expect(status, body).toBe(expected)
}

function expectErrors(answer: RawAnswer, errors: object): void {
  expectStatus(answer, 422)
  expect(JSON.parse(answer.body).errors).toEqual(errors)
}

function expectUser(
  answer: RawAnswer,
  status: number,
  { shown, tag }: Pick<ModelUser, 'shown' | 'tag'>,
): void {
  expectStatus(answer, status)
  expect(JSON.parse(answer.body)).toEqual(shown)
  expect(answer.headers.etag).toBe(tag)
}
