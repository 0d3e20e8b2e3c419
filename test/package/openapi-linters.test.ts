import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore, { type ISpectralDiagnostic } from '@stoplight/spectral-core'
import parsers from '@stoplight/spectral-parsers'
import { oas } from '@stoplight/spectral-rulesets'
import { expect, test } from 'vitest'
import { openTestApp } from '../support/open-test-app.ts'

/** Settings that change the document. */
const SETTINGS = [{}, { API_KEYS: 'required' }]

/** OpenAPI 3.1 allows roles for schemes of every type, 3.0 only for those that list scopes. Spectral knows the latter. */
const OUTDATED = /^"\w+:\w+" must be listed among scopes\.$/

test.each(SETTINGS)("Redocly's recommended rules find nothing, with %o", async env => {
  const { http } = await openTestApp({ env })
  const { text } = await http.get('/openapi.json').expect(200)
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config })
  expect(
    problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
  ).toEqual([])
})

test.each(SETTINGS)("Spectral's rules for OpenAPI find nothing, with %o", async env => {
  const { http } = await openTestApp({ env })
  const { text } = await http.get('/openapi.json').expect(200)
  const { Document, Spectral } = spectralCore
  const spectral = new Spectral()
  spectral.setRuleset({ extends: [oas as never] })
  const found: ISpectralDiagnostic[] = await spectral.run(new Document(text, parsers.Json))
  const problems = found.filter(({ message }) => !OUTDATED.test(message))
  expect(problems.map(({ code, message, path }) => [code, message, path.join('/')])).toEqual([])
})
