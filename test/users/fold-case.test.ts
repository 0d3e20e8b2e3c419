import { expect, onTestFinished, test } from 'vitest'
import { migrate, migrationsOfRelease } from '../../src/storage/sqlite/migrator.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { foldCase } from '../../src/users/user.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'

/** The letters that have the same capital as another small letter, with that letter. */
const TWINS = [
  ...['µμ', 'ςσ', 'ϐβ', 'ϑθ', 'ϕφ', 'ϖπ', 'ϰκ', 'ϱρ', 'ϵε', '\u0345ι', 'ſs', 'ẛṡ', 'ﬅﬆ'],
  ...['ᲀв', 'ᲁд', 'ᲂо', 'ᲃс', 'ᲄт', 'ᲅт', 'ᲆъ', 'ᲇѣ', 'ᲈꙋ'],
].map(pair => [...pair] as [string, string])

const FOLDING = 9

function codePoints(isOne: (text: string) => boolean): string[] {
  const all = Array.from({ length: 0x110000 }, (_, code) => code)
  const texts = all.filter(code => code < 0xd800 || code > 0xdfff)
  return texts.map(code => String.fromCodePoint(code)).filter(isOne)
}

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

test('a migration folds the names of an older release as this release folds them, with each mark after a letter', () => {
  const database = new Database(':memory:')
  onTestFinished(() => void database.close())
  const migrations = migrationsOfRelease()
  migrate(database, migrations.slice(0, FOLDING - 1), Date.now)
  const insert = database.prepare(`
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    VALUES (@name, @folded, @email, @time, @time)`)
  const marks = codePoints(text => /\p{M}/u.test(text))
  const time = new Date(0).toISOString()
  const fill = database.transaction(() => {
    let serial = 0
    for (const [letter] of [...TWINS, ['x']] as [string][]) {
      for (const mark of ['', ...marks, 'z', letter]) {
        const name = `A${letter}${mark}b`.normalize('NFC')
        const folded = name.toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
        insert.run({ name, folded, email: `user${serial++}@example.com`, time })
      }
    }
  })
  fill()
  migrate(database, migrations.slice(0, FOLDING), Date.now)
  const rows = database.prepare('SELECT name, name_lower FROM users').raw().all() as string[][]
  expect(rows.filter(([name = '', folded]) => foldCase(name) !== folded)).toEqual([])
  expect(rows.length).toBeGreaterThan(20_000)
})
