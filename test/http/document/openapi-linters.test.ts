import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore, { type ISpectralDiagnostic } from '@stoplight/spectral-core'
import parsers from '@stoplight/spectral-parsers'
import { oas } from '@stoplight/spectral-rulesets'
import { expect, test } from 'vitest'
import { openTestApp } from '../../support/open-test-app.ts'

/** Settings that change the document. */
const SETTINGS = [{}, { CORS_ORIGINS: 'https://app.example.com' }]

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
  const problems: ISpectralDiagnostic[] = await spectral.run(new Document(text, parsers.Json))
  expect(problems.map(({ code, message, path }) => [code, message, path.join('/')])).toEqual([])
})
