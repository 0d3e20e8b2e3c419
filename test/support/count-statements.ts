import pg from 'pg'
import { onTestFinished } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { engine } from './engine.ts'

/**
 * Listens at the drivers until the end of the test. Returns a function that tells how many statements with this text this process
 * has run since then.
 */
export function countStatements(): (text: string) => number {
  const texts: string[] = []
  if (engine === 'postgres') {
    watch(pg.Client.prototype, 'query', (_client, config) => {
      texts.push(typeof config === 'string' ? config : (config as { text: string }).text)
    })
  } else {
    const database = new Database(':memory:')
    const statement = database.prepare<[], unknown>('SELECT 1')
    watch(Object.getPrototypeOf(statement), 'all', ({ source }) => texts.push(source as string))
    database.close()
  }
  return text => texts.filter(sql => sql.includes(text)).length
}

type Methods = Record<string, (...args: unknown[]) => unknown>

/** Calls `onCall` with the object and the first argument of each call of a method. */
function watch(
  prototype: object,
  name: string,
  onCall: (object: Record<string, unknown>, argument: unknown) => void,
): void {
  const methods = prototype as Methods
  const method = methods[name] as Methods[string]
  methods[name] = function (this: Record<string, unknown>, ...args) {
    onCall(this, args[0])
    return method.apply(this, args)
  }
  onTestFinished(() => {
    methods[name] = method
  })
}
