import { expect, test } from 'vitest'
import { foldCase } from '../../src/users/user.ts'
import { newUserBody } from '../support/builders.ts'
import { codePoints, TWINS } from '../support/letters.ts'
import { openTestApp } from '../support/open-test-app.ts'

test.each(TWINS)(
  'GET /users finds %s by %s and by their capital, and the reverse',
  async (form, usual) => {
    const { http } = await openTestApp()
    const capital = usual.toUpperCase().length === 1 ? usual.toUpperCase() : usual
    const names = [form, usual, capital].map(letter => `x${letter}y`)
    for (const name of names) await http.post('/users').send(newUserBody({ name })).expect(201)
    for (const name of names) {
      const { body } = await http.get(`/users?name=${encodeURIComponent(name)}&sort=name`)
      expect(body.map((user: { name: string }) => user.name)).toEqual(names)
    }
  },
)

test('GET /users distinguishes names that differ in more than case', async () => {
  const { http } = await openTestApp()
  for (const name of ['ı', 'i', 'ß', 'ss', 'ﬁ', 'fi']) {
    await http.post('/users').send(newUserBody({ name })).expect(201)
  }
  for (const name of ['I', 'ẞ', 'FI']) {
    expect((await http.get(`/users?name=${encodeURIComponent(name)}`)).body).toHaveLength(1)
  }
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
