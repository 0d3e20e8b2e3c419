import { expect, test } from 'vitest'
import { foldCase } from '../../src/users/user.ts'
import { newUserBody } from '../support/builders.ts'
import { codePoints, TWINS } from '../support/letters.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

async function create(...names: string[]): Promise<void> {
  const creates = names.map(name => app.http.post('/users').send(newUserBody({ name })).expect(201))
  await Promise.all(creates)
}

async function namesFor(name: string): Promise<string[]> {
  const { body } = await app.http.get(`/users?name=${encodeURIComponent(name)}&sort=name`)
  return body.map((user: { name: string }) => user.name)
}

test('GET /users finds letters by those that have the same capital, by their capital, and the reverse', async () => {
  const names = TWINS.flatMap(pair => pair.flatMap(letter => [letter, letter.toUpperCase()]))
  const letters = [...new Set(names.filter(letter => letter.length === 1))]
  await create(...letters.map(letter => `x${letter}y`))
  for (const [form, usual] of TWINS) {
    const capital = usual.toUpperCase()
    const wanted = [form, usual, ...(capital.length === 1 ? [capital] : [])].map(
      each => `x${each}y`,
    )
    for (const name of wanted) {
      expect(await namesFor(name)).toEqual(expect.arrayContaining(wanted))
    }
  }
})

test('GET /users distinguishes names that differ in more than case', async () => {
  await create('ı', 'i', 'ß', 'ss', 'ﬁ', 'fi')
  for (const name of ['I', 'ẞ', 'FI']) expect(await namesFor(name)).toHaveLength(1)
})

test('foldCase gives the same for each letter and the single letters that Unicode folds it to', () => {
  // A regular expression with the flags `i` and `u` uses the same simple folding.
  const letters = codePoints(text => /[\p{L}\p{M}\p{N}\p{S}]/u.test(text))
  const others = (letter: string) => [letter.toLowerCase(), letter.toUpperCase()]
  const same = letters.flatMap(letter =>
    others(letter)
      .filter(other => [...other].length === 1 && other !== letter)
      .filter(other =>
        new RegExp(`^\\u{${letter.codePointAt(0)?.toString(16)}}$`, 'iu').test(other),
      )
      .map(other => [letter, other] as const),
  )
  expect(same.length).toBeGreaterThan(2000)
  expect(same.filter(([letter, other]) => foldCase(letter) !== foldCase(other))).toEqual([])
})
