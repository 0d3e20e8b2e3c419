import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'

/** A folder for all tests of a file or of a `describe`. Call the result inside of them only. */
export function sharedFolder(): () => string {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'user-records-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return () => folder
}
