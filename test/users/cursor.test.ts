import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { decodeChangeCursor } from '../../src/users/cursor.ts'

/** A cursor whose check is right, as anybody can make it. */
function forge(payload: string): string {
  const check = createHash('sha256').update(`changes\n${payload}`).digest().subarray(0, 6)
  return Buffer.concat([check, Buffer.from(payload)]).toString('base64url')
}

test.each([
  ...['null', '{}', '[]', 'no JSON', '["mark",1,"x",0,"0"]', '["mark",1,"1.5",0,"0"]'],
  ...['["mark",1,"-1",0,"0"]', '["mark",1,"99999999999999999999",0,"0"]', '["mark",1,0,0,"0"]'],
  ...['["mark",1,"0","x","0"]', '["mark",1,"0",1.5,"0"]', '["mark",1,"0",0,"x"]'],
  ...['["mark",0,"\\u0000",0,"0"]', '["mark",2,"0",0,"0"]', '[1,1,"0",0,"0"]', '["mark",1,"0",0]'],
])('decodeChangeCursor refuses other values, although their check is right: %s', payload => {
  expect(decodeChangeCursor(forge(payload))).toBeUndefined()
})
