import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore from '@stoplight/spectral-core'
import parsers from '@stoplight/spectral-parsers'
import { oas } from '@stoplight/spectral-rulesets'
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
