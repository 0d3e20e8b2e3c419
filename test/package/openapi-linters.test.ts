import { spawnSync } from 'node:child_process'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore from '@stoplight/spectral-core'
import parsers from '@stoplight/spectral-parsers'
import { oas } from '@stoplight/spectral-rulesets'
import { RE2JS } from 're2js'
import { expect, test } from 'vitest'
import { openTestApp } from '../support/open-test-app.ts'

/** Settings that change the document. */
const SETTINGS = [{}, { API_KEYS: 'required' }]

/** OpenAPI 3.1 allows roles for schemes of every type, 3.0 only for those that list scopes. Spectral knows the latter. */
const OUTDATED = /^"\w+:\w+" must be listed among scopes\.$/

test.each(SETTINGS)(
  'the recommended rules of Redocly and Spectral find nothing, with %o',
  async env => {
    const { http } = await openTestApp({ env })
    const { text } = await http.get('/openapi.json').expect(200)
    const config = await createConfig({ extends: ['recommended'] })
    expect(await lintFromString({ source: text, absoluteRef: '/openapi.json', config })).toEqual([])
    const { Document, Spectral } = spectralCore
    const spectral = new Spectral()
    spectral.setRuleset({ extends: [oas as never] })
    const found = await spectral.run(new Document(text, parsers.Json))
    expect(found.filter(({ message }) => !OUTDATED.test(message))).toEqual([])
  },
)

test('every pattern compiles in JavaScript, in RE2, and in Python if it is installed', async () => {
  const { http } = await openTestApp()
  const patterns = new Set<string>()
  JSON.parse((await http.get('/openapi.json')).text, (key, value) => {
    if (key === 'pattern') patterns.add(value)
    return value
  })
  expect(patterns.size).toBeGreaterThan(8)
  for (const pattern of patterns) {
    for (const flags of ['', 'u']) expect(() => new RegExp(pattern, flags)).not.toThrow()
    expect(() => RE2JS.compile(pattern)).not.toThrow()
  }
  const program = 'import re, sys\nfor line in sys.stdin: re.compile(line)'
  const input = [...patterns].join('\n')
  const { error, stderr } = spawnSync('python3', ['-c', program], { input, encoding: 'utf8' })
  if (error !== undefined) console.log('not tried in Python: python3 is not installed')
  else expect(stderr).toBe('')
})
