// An identity provider as others write it: npm's `oidc-provider`, with its own forms for login and consent.
// `test_login.py` runs it in the directory that has the package, and gives it its settings on the standard input.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import Provider from 'oidc-provider';

const { issuer, port, certificate, key, client, people } = JSON.parse(readFileSync(0, 'utf8'));

const provider = new Provider(issuer, {
  clients: [client],
  pkce: { required: () => true },
  scopes: ['openid', 'profile', 'groups'],
  claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
  cookies: { keys: ['only for a test'] },
  // Whatever the password, as its forms for trials have it; who is nobody's name is refused.
  findAccount: (_, id) =>
    id in people && { accountId: id, claims: () => ({ sub: id, preferred_username: id, ...people[id] }) },
});

createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, provider.callback()).listen(port, '127.0.0.1');
